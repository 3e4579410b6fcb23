// Numbers of sequences on ranks, as equal as they can be.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_EVEN_COUNTS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_EVEN_COUNTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace batchplan {

// `total` over `parts`: each has `least`, and `larger` of them one more.
struct EvenCounts {
  EvenCounts(uint64_t total, uint64_t parts) : least(total / parts), larger(total % parts) {}

  uint64_t most() const { return larger > 0 ? least + 1 : least; }
  bool Allow(uint64_t count) const { return count == least || count == most(); }

  uint64_t least;
  uint64_t larger;
};

// The counts of parts while a search exchanges their contents. Every part keeps its count, except
// if the counts are as equal as can be and not all equal: then a part with one more may give one to
// a part without.
class KeptCounts {
 public:
  KeptCounts() = default;
  explicit KeptCounts(std::vector<uint64_t> counts) {
    uint64_t total = 0;
    for (const uint64_t count : counts) total += count;
    if (counts.empty() || total % counts.size() == 0) return;
    const EvenCounts even(total, counts.size());
    least_ = even.least;
    if (std::ranges::all_of(counts, [&](uint64_t count) { return even.Allow(count); })) {
      counts_ = std::move(counts);
    }
  }

  // Whether counts may change at all.
  bool may_change() const { return !counts_.empty(); }
  // Whether `from` may give `to` this many more than it gets back.
  bool Allow(size_t from, size_t to, int64_t given) const {
    if (given == 0 || from == to) return true;
    if (counts_.empty() || (given != 1 && given != -1)) return false;
    if (given < 0) std::swap(from, to);
    return counts_[from] > least_ && counts_[to] == least_;
  }
  void Give(size_t from, size_t to, int64_t given) {
    if (counts_.empty() || given == 0) return;
    counts_[from] -= static_cast<uint64_t>(given);
    counts_[to] += static_cast<uint64_t>(given);
  }

 private:
  std::vector<uint64_t> counts_;
  uint64_t least_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_EVEN_COUNTS_H_
