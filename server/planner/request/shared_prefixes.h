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

// The manifest's relations as they were said: sequence i has prefixes[i] tokens in common with
// with[i], and what follows from that.
struct PrefixRelations {
  std::vector<uint32_t> prefixes;
  std::vector<uint32_t> with;
};

// The sequences of a manifest as a forest in which each is the path of its tokens from a root, and
// what two have in common is the part of their paths that is one. Sequences stand in depth-first
// order: what shares most stands together, prefixes before what extends them, otherwise by position
// in the manifest. Two sequences have the least in common that neighbours between them have.
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
  // In depth-first order.
  uint32_t PlaceOf(SequenceIndex sequence) const { return places_[sequence.value()]; }
  // The tokens that two sequences have in common.
  uint32_t Common(SequenceIndex a, SequenceIndex b) const {
    const auto [first, last] = std::minmax({PlaceOf(a), PlaceOf(b)});
    return first == last ? std::numeric_limits<uint32_t>::max() : common_.Of(first + 1, last);
  }
  // Into depth-first order.
  void Sort(std::span<SequenceIndex> sequences) const {
    std::ranges::sort(sequences, {}, [&](SequenceIndex sequence) { return PlaceOf(sequence); });
  }
  // The tokens of `sequences`, which stand in depth-first order, in one row, `lengths` being those
  // of all by position in the manifest.
  uint64_t TokensOf(std::span<const SequenceIndex> sequences,
                    std::span<const uint32_t> lengths) const {
    uint64_t tokens = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      tokens += lengths[sequences[i].value()];
      if (i > 0) tokens -= Common(sequences[i - 1], sequences[i]);
    }
    return tokens;
  }

  // What some of the sequences have in common, as if these, which ascend, were the manifest.
  PrefixRelations Among(std::span<const SequenceIndex> sequences) const;

 private:
  // By position in the manifest.
  std::vector<uint32_t> places_;
  // By place, what the sequence has in common with the one at the place before.
  RangeMinima common_;
};

// An empty one, which lasts.
const SharedPrefixes& NothingShared();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_SHARED_PREFIXES_H_
