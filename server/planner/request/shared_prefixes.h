// What the sequences of a batch have in common, from their first tokens on.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_SHARED_PREFIXES_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_SHARED_PREFIXES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/range_minima.h"

namespace batchplan {

// InvalidArgument, naming field, value and limit, if shared_prefixes or shared_with have another
// size than lengths, if nothing says with whom a prefix is shared, if that is no earlier sequence,
// or if a prefix is longer than one of the two.
absl::Status CheckSharedPrefixes(const Manifest& manifest);

// Relations in the manifest's form: sequence i has its first prefixes[i] tokens in common with
// sequence with[i].
struct PrefixRelations {
  std::vector<uint32_t> prefixes;
  std::vector<uint32_t> with;
};

// The sequences of a manifest as a forest: each sequence is a path of tokens from a root, and two
// sequences have the common part of their paths in common. In depth-first order, sequences that
// share most stand together, prefixes before their extensions, and otherwise by position in the
// manifest. Two sequences have as much in common as the least of all neighbours from one to the
// other.
class SharedPrefixes {
 public:
  // Nothing is shared.
  SharedPrefixes() = default;
  // Of a manifest that CheckSharedPrefixes passes, its sequences cut after `longest` tokens.
  // O(n log n).
  explicit SharedPrefixes(const Manifest& manifest,
                          uint32_t longest = std::numeric_limits<uint32_t>::max());

  // Whether no two sequences have anything in common.
  bool empty() const { return places_.empty(); }
  // The sequence's place in depth-first order.
  uint32_t PlaceOf(SequenceIndex sequence) const { return places_[sequence.value()]; }
  // The tokens that two sequences have in common.
  uint32_t Common(SequenceIndex a, SequenceIndex b) const {
    const auto [first, last] = std::minmax({PlaceOf(a), PlaceOf(b)});
    return first == last ? std::numeric_limits<uint32_t>::max() : common_.Of(first + 1, last);
  }
  // Sorts into depth-first order.
  void Sort(std::span<SequenceIndex> sequences) const {
    std::ranges::sort(sequences, {}, [&](SequenceIndex sequence) { return PlaceOf(sequence); });
  }
  // The tokens of a row of `sequences`, which are in depth-first order. `lengths` are those of all
  // sequences, by position in the manifest.
  uint64_t TokensOf(std::span<const SequenceIndex> sequences,
                    std::span<const uint32_t> lengths) const {
    uint64_t tokens = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      tokens += lengths[sequences[i].value()];
      if (i > 0) tokens -= Common(sequences[i - 1], sequences[i]);
    }
    return tokens;
  }

  // The relations of some of the sequences, as if these, which ascend, were the manifest.
  PrefixRelations Among(std::span<const SequenceIndex> sequences) const;

 private:
  // By position in the manifest.
  std::vector<uint32_t> places_;
  // By place, the tokens that the sequence has in common with the one at the place before.
  RangeMinima common_;
};

// SharedPrefixes without sharing, of static lifetime.
const SharedPrefixes& NothingShared();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_SHARED_PREFIXES_H_
