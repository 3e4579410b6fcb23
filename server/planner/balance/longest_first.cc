#include "server/planner/balance/longest_first.h"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>
#include <vector>

#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// A heap with the least entry on top, which is raised in place; entries are totally ordered. To
// raise an entry costs half as much as to remove and add it, and greedy partitions do little else.
// A node has four children, next to each other, as large heaps mostly wait for memory.
template <typename Entry>
class LeastHeap {
 public:
  bool empty() const { return entries_.empty(); }
  const Entry& Top() const { return entries_.front(); }

  void Push(const Entry& entry) {
    size_t hole = entries_.size();
    entries_.push_back(entry);
    for (; hole > 0 && entry < entries_[(hole - 1) / 4]; hole = (hole - 1) / 4) {
      entries_[hole] = entries_[(hole - 1) / 4];
    }
    entries_[hole] = entry;
  }

  // Replaces the top by `entry`, which is not less.
  void RaiseTop(const Entry& entry) {
    size_t hole = 0;
    for (size_t child = 1; child < entries_.size(); child = 4 * hole + 1) {
      const size_t end = std::min(child + 4, entries_.size());
      size_t least = child;
      for (++child; child < end; ++child) least = entries_[child] < entries_[least] ? child : least;
      if (!(entries_[least] < entry)) break;
      entries_[hole] = entries_[least];
      hole = least;
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

// Loads from one look for a stop to the next.
constexpr uint64_t kLoadsPerLook = 65536;

// A part or bin, in the order in which they get loads: by sum, count and number.
class Entry {
 public:
  Entry(uint64_t sum, uint32_t count, uint32_t part)
      : sum_(sum), count_and_part_(uint64_t{count} << 32 | part) {}

  uint64_t sum() const { return sum_; }
  uint32_t count() const { return static_cast<uint32_t>(count_and_part_ >> 32); }
  uint32_t part() const { return static_cast<uint32_t>(count_and_part_); }

  // Without a jump, as none could be foreseen.
  friend bool operator<(const Entry& a, const Entry& b) {
    return (a.sum_ < b.sum_) | ((a.sum_ == b.sum_) & (a.count_and_part_ < b.count_and_part_));
  }

 private:
  uint64_t sum_;
  uint64_t count_and_part_;
};

}  // namespace

std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each, uint64_t least_each,
                                   const Allowance& allowance) {
  LeastHeap<Entry> lightest;
  for (uint32_t part = 0; part < parts; ++part) lightest.Push({0, 0, part});
  std::vector<uint32_t> part_of(loads.size());
  uint64_t left = loads.size();
  uint64_t needed = parts * least_each;
  for (uint32_t load : DescendingLaterFirst(loads)) {
    if (left % kLoadsPerLook == 0 && allowance.stop_requested()) break;
    if (left == needed && most_each != least_each) {
      lightest.EraseIf([=](const Entry& entry) { return entry.count() >= least_each; });
      most_each = least_each;
    }
    const Entry entry = lightest.Top();
    part_of[load] = entry.part();
    --left;
    needed -= entry.count() < least_each;
    if (entry.count() + 1 < most_each) {
      lightest.RaiseTop({entry.sum() + loads[load], entry.count() + 1, entry.part()});
    } else {
      lightest.Pop();
    }
  }
  return part_of;
}

std::vector<uint32_t> DealLayers(std::span<const uint64_t> loads,
                                 std::span<const uint32_t> descending_order, uint32_t parts) {
  std::vector<uint32_t> part_of(loads.size());
  std::vector<std::pair<uint64_t, uint32_t>> lightest;  // sum, part
  for (uint32_t part = 0; part < parts; ++part) lightest.emplace_back(0, part);
  for (size_t layer = 0; layer < descending_order.size(); layer += parts) {
    std::sort(lightest.begin(), lightest.end());
    const size_t end = std::min<size_t>(parts, descending_order.size() - layer);
    for (size_t i = 0; i < end; ++i) {
      const uint32_t load = descending_order[layer + i];
      part_of[load] = lightest[i].second;
      lightest[i].first += loads[load];
    }
  }
  return part_of;
}

std::vector<uint32_t> FillLongestFirst(std::span<const uint32_t> positions, uint32_t begin,
                                       uint32_t end, uint64_t per_token, Filling& filling,
                                       const Allowance& allowance) {
  const SortedTask& task = filling.task();
  LeastHeap<Entry> least;
  // Bins that did not hold an item wait for a shorter one, the roomiest first.
  std::priority_queue<std::pair<int64_t, uint32_t>> waiting;
  const auto entry_of = [&](uint32_t bin) {
    const uint64_t tokens = task.limits.capacity - static_cast<uint64_t>(filling[bin].room);
    return Entry(filling[bin].cost + per_token * tokens, filling[bin].items, bin);
  };
  for (uint32_t bin = begin; bin < end; ++bin) least.Push(entry_of(bin));

  std::vector<uint32_t> left_over;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (i % kLoadsPerLook == 0 && allowance.stop_requested()) break;
    const uint32_t position = positions[i];
    while (!waiting.empty() && waiting.top().first >= task.length[position]) {
      least.Push(entry_of(waiting.top().second));
      waiting.pop();
    }
    while (!least.empty()) {
      const uint32_t bin = least.Top().part();
      if (filling.Holds(bin, position)) break;
      least.Pop();
      // A bin that has room for the tokens but not for the sequences counts as full and does not
      // return.
      if (filling[bin].room < task.length[position]) waiting.emplace(filling[bin].room, bin);
    }
    if (least.empty()) {
      left_over.push_back(position);
      continue;
    }
    const uint32_t bin = least.Top().part();
    filling.Place(position, bin);
    least.RaiseTop(entry_of(bin));
  }
  return left_over;
}

}  // namespace batchplan
