#include "server/planner/partition/longest_first.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "server/planner/partition/descending.h"

namespace batchplan {
namespace {

// A part in the order in which parts take loads.
struct Entry {
  uint64_t sum = 0;
  uint64_t count = 0;
  uint32_t part = 0;

  friend bool operator<(const Entry& a, const Entry& b) {
    return std::tie(a.sum, a.count, a.part) < std::tie(b.sum, b.count, b.part);
  }
};

// A heap with the least entry on top, which may be raised in place: half the work of taking it out
// and putting it back.
class Lightest {
 public:
  explicit Lightest(uint32_t parts) {
    for (uint32_t part = 0; part < parts; ++part) entries_.push_back({.part = part});
  }

  const Entry& Top() const { return entries_.front(); }

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

  // Drops the parts that have `count` loads or more.
  void KeepThoseBelow(uint64_t count) {
    std::erase_if(entries_, [=](const Entry& entry) { return entry.count >= count; });
    std::sort(entries_.begin(), entries_.end());
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each, uint64_t least_each) {
  Lightest lightest(parts);
  std::vector<uint32_t> part_of(loads.size());
  uint64_t left = loads.size();
  uint64_t needed = parts * least_each;
  for (uint32_t load : DescendingLaterFirst(loads)) {
    if (left == needed && most_each != least_each) {
      lightest.KeepThoseBelow(least_each);
      most_each = least_each;
    }
    Entry entry = lightest.Top();
    part_of[load] = entry.part;
    --left;
    needed -= entry.count < least_each;
    entry.sum += loads[load];
    if (++entry.count < most_each) {
      lightest.RaiseTop(entry);
    } else {
      lightest.Pop();
    }
  }
  return part_of;
}

}  // namespace batchplan
