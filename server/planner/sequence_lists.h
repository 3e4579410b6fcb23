// Lists of sequences in one flat array: mini-batches, the shares of ranks, groups, micro-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_SEQUENCE_LISTS_H_
#define BATCHPLAN_SERVER_PLANNER_SEQUENCE_LISTS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "server/planner/index.h"

namespace batchplan {

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
    // Most have a single one, which insert() is slow to append.
    for (const SequenceIndex sequence : sequences) sequences_.push_back(sequence);
  }
  // Ends a list, which may be empty.
  void Close() { offsets_.push_back(sequences_.size()); }

 private:
  bool single() const { return offsets_.empty(); }

  std::vector<SequenceIndex> sequences_;
  // None for lists of one sequence each, of which it would be a long array read at random.
  std::vector<size_t> offsets_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SEQUENCE_LISTS_H_
