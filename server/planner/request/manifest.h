// The lengths of one global batch, as the caller holds them; its sequences, and lists of them.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_MANIFEST_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_MANIFEST_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

namespace batchplan {

// A load: what sequences add to a micro-batch beside tokens.
struct Load {
  absl::string_view name;
  // One a sequence; empty if the load has items, whose sum it then is.
  std::span<const double> values = {};
};

// The parts of a load, in the order of their sequences.
struct LoadItems {
  absl::string_view load;
  // Parallel: the sequence of each item, and its part of the load.
  std::span<const uint32_t> sequences = {};
  std::span<const double> values = {};
};

// A view: the caller's arrays are read in place, never copied, and must outlive the planning call.
struct Manifest {
  // Tokens of each sequence; a sequence is known by its position here.
  std::span<const uint32_t> lengths = {};
  // Empty, or one a sequence.
  std::span<const uint32_t> group_ids = {};
  // Width the batch would be padded to without a plan; 0: the longest sequence.
  uint32_t pad_to = 0;
  // The rank of each sequence, for a batch that was dispatched before it is planned; empty: the
  // planner decides.
  std::span<const uint32_t> ranks = {};
  // Empty, or one a sequence: training steps since the weights that made it.
  std::span<const uint32_t> ages = {};
  // Empty, or one a sequence: the tokens, from the first, that it has in common with an earlier
  // sequence.
  std::span<const uint32_t> shared_prefixes = {};
  // Empty, or one a sequence: the position of the earlier sequence. If empty, it is the first of
  // the same group.
  std::span<const uint32_t> shared_with = {};
  std::vector<Load> loads = {};
  // Of loads without values.
  std::vector<LoadItems> items = {};
  // Empty, or one a sequence: 0 of text.
  std::span<const uint32_t> kinds = {};
};

// A sequence, by its position in the manifest. The compiler keeps it apart from positions in lists
// of sequences; ranks, slots, bins, units and items are plain integers, named for what they number.
class SequenceIndex {
 public:
  SequenceIndex() = default;
  explicit constexpr SequenceIndex(uint32_t value) : value_(value) {}

  constexpr uint32_t value() const { return value_; }
  // clang-tidy mistakes the 0 that the compiler compares with for a null pointer.
  friend constexpr auto operator<=>(SequenceIndex,
                                    SequenceIndex) = default;  // NOLINT(modernize-use-nullptr)

 private:
  uint32_t value_ = 0;
};

// Lists of sequences in one flat array: mini-batches, the shares of ranks, groups, micro-batches.
class SequenceLists {
 public:
  // No lists.
  SequenceLists() : offsets_{0} {}

  // One list a sequence. Nothing is appended to them.
  static SequenceLists Singles(std::span<const SequenceIndex> sequences) {
    SequenceLists lists;
    lists.sequences_.assign(sequences.begin(), sequences.end());
    lists.offsets_.clear();
    return lists;
  }

  size_t size() const { return single() ? sequences_.size() : offsets_.size() - 1; }
  std::span<const SequenceIndex> operator[](size_t list) const {
    if (single()) return std::span(sequences_).subspan(list, 1);
    return std::span(sequences_).subspan(offsets_[list], offsets_[list + 1] - offsets_[list]);
  }
  // The sequences of all lists, one list after the other.
  std::span<const SequenceIndex> all() const { return sequences_; }

  void Reserve(size_t lists, size_t sequences) {
    offsets_.reserve(lists + 1);
    sequences_.reserve(sequences);
  }
  // Appends to the list that the next Close() ends.
  void Push(SequenceIndex sequence) { sequences_.push_back(sequence); }
  void Push(std::span<const SequenceIndex> sequences) {
    // Most spans have one sequence, which insert() is slow to append.
    for (const SequenceIndex sequence : sequences) sequences_.push_back(sequence);
  }
  // Ends a list, which may be empty.
  void Close() { offsets_.push_back(sequences_.size()); }

 private:
  bool single() const { return offsets_.empty(); }

  std::vector<SequenceIndex> sequences_;
  // Empty for lists of one sequence each: it would be a long array, read at random.
  std::vector<size_t> offsets_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_MANIFEST_H_
