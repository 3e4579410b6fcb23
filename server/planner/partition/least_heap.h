// A heap whose least entry is raised in place.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_LEAST_HEAP_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_LEAST_HEAP_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace batchplan {

// The least entry stands on top; entries are in a total order. To raise it costs half of what
// taking it out and putting it back would, and greedy partitions do little else.
template <typename Entry>
class LeastHeap {
 public:
  bool empty() const { return entries_.empty(); }
  const Entry& Top() const { return entries_.front(); }

  void Push(const Entry& entry) {
    size_t hole = entries_.size();
    entries_.push_back(entry);
    for (; hole > 0 && entry < entries_[(hole - 1) / 2]; hole = (hole - 1) / 2) {
      entries_[hole] = entries_[(hole - 1) / 2];
    }
    entries_[hole] = entry;
  }

  // Puts `entry`, which is no less, in the place of the top.
  void RaiseTop(const Entry& entry) {
    size_t hole = 0;
    for (size_t child = 1; child < entries_.size(); child = 2 * hole + 1) {
      if (child + 1 < entries_.size() && entries_[child + 1] < entries_[child]) ++child;
      if (!(entries_[child] < entry)) break;
      entries_[hole] = entries_[child];
      hole = child;
    }
    entries_[hole] = entry;
  }

  void Pop() {
    const Entry last = entries_.back();
    entries_.pop_back();
    if (!entries_.empty()) RaiseTop(last);
  }

  // Drops the entries for which `condition` holds.
  template <typename Condition>
  void EraseIf(Condition condition) {
    std::vector<Entry> entries = std::exchange(entries_, {});
    for (const Entry& entry : entries) {
      if (!condition(entry)) Push(entry);
    }
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_LEAST_HEAP_H_
