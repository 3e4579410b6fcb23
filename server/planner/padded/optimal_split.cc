#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// Ticks of a shortest path for each item.
constexpr uint64_t kTicksAnItem = 60;

// Which of the splits of equal cost is preferred.
enum class Prefer { kFewestRuns, kMostRuns };

// Shortest paths over the positions 0 .. n: the edge from i to j is the run of items [i, j), its
// weight the run's padded tokens plus a price for each run.
class RunPaths {
 public:
  RunPaths(const PaddedItems& items, const PaddedLimits& limits)
      : items_(items), size_(static_cast<uint32_t>(items.size())), counts_(items.size() + 1, 0) {
    for (uint32_t i = 0; i < size_; ++i) counts_[i + 1] = counts_[i] + items.count(i);
    reach_.reserve(size_);
    uint32_t end = 1;
    for (uint32_t begin = 0; begin < size_; ++begin) {
      end = std::max(end, begin + 1);
      while (end < size_ && limits.Allow(counts_[end + 1] - counts_[begin], items.widths[end])) {
        ++end;
      }
      reach_.push_back(end);
    }
    if (items.loads.empty()) return;
    const std::vector<uint32_t> of_loads = ReachOfLoads(items);
    for (uint32_t i = 0; i < size_; ++i) reach_[i] = std::min(reach_[i], of_loads[i]);
  }

  // The cuts of a shortest path. Tokens have the Monge property, with runs beyond a limit counted
  // as infinitely long: if a later start of the last run is better for some end, it is better for
  // every further end. So the starts still of use form a queue, each best from some end on (Z.
  // Galil and R. Giancarlo, "Speeding up dynamic programming with applications to molecular
  // biology", 1989).
  Cuts Shortest(uint64_t price, Prefer prefer) {
    price_ = price;
    prefer_ = prefer;
    shortest_.assign(size_ + 1, 0);
    std::vector<uint32_t> start_of(size_ + 1, 0);
    queue_.clear();
    size_t head = 0;
    for (uint32_t end = 1; end <= size_; ++end) {
      Enqueue(end - 1, head);
      while (head + 1 < queue_.size() && queue_[head + 1].first_end <= end) ++head;
      start_of[end] = queue_[head].start;
      shortest_[end] = Through(queue_[head].start, end);
    }
    Cuts cuts;
    for (uint32_t end = size_; end > 0; end = start_of[end]) cuts.push_back(end);
    cuts.push_back(0);
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  struct Candidate {
    uint32_t start;
    // The first end for which no start before it in the queue is better.
    uint32_t first_end;
  };

  // Weights are ordered by cost, then by runs.
  absl::uint128 Through(uint32_t start, uint32_t end) const {
    const absl::uint128 tokens =
        absl::uint128(counts_[end] - counts_[start]) * items_.widths[end - 1];
    const absl::uint128 weight = (tokens + price_) << 32;
    return shortest_[start] + (prefer_ == Prefer::kFewestRuns ? weight + 1 : weight - 1);
  }

  // Whether the path through `later` is at least as good at `end` as that through `earlier`.
  bool Overtakes(uint32_t later, uint32_t earlier, uint32_t end) const {
    return end > reach_[earlier] || Through(later, end) <= Through(earlier, end);
  }

  void Enqueue(uint32_t start, size_t head) {
    while (queue_.size() > head) {
      const Candidate& last = queue_.back();
      const uint32_t from = std::max(last.first_end, start + 1);
      if (Overtakes(start, last.start, from)) {
        queue_.pop_back();
        continue;
      }
      // Overtaken somewhere in (from, reach + 1], at the latest where `last` does not reach.
      uint32_t low = from + 1;
      uint32_t high = reach_[last.start] + 1;
      while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (Overtakes(start, last.start, middle)) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      if (low <= size_) queue_.push_back({start, low});
      return;
    }
    queue_.push_back({start, start + 1});
  }

  const PaddedItems& items_;
  const uint32_t size_;
  std::vector<uint64_t> counts_;  // sequences before each position
  std::vector<uint32_t> reach_;   // the furthest end of a run from each position
  uint64_t price_ = 0;
  Prefer prefer_ = Prefer::kFewestRuns;
  std::vector<absl::uint128> shortest_;
  std::vector<Candidate> queue_;
};

// A path of exactly `runs` runs from two shortest ones, of fewer and of more runs. Somewhere a run
// of the first encloses the run of the second that has the right number of runs behind it; by the
// Monge property crossing over there costs nothing.
Cuts Splice(const Cuts& fewer, const Cuts& more, size_t runs) {
  const size_t shift = more.size() - 1 - runs;
  size_t run = 0;
  while (fewer[run + 1] <= more[run + 1 + shift]) ++run;
  Cuts spliced(fewer.begin(), fewer.begin() + static_cast<ptrdiff_t>(run) + 1);
  spliced.insert(spliced.end(), more.begin() + static_cast<ptrdiff_t>(run + 1 + shift), more.end());
  return spliced;
}

}  // namespace

Cuts OptimalSplit(const PaddedItems& items, const PaddedLimits& limits, size_t runs,
                  const Allowance& allowance) {
  if (items.size() == 0) return {0};
  RunPaths paths(items, limits);
  const auto fewest = [&](uint64_t price) {
    allowance.Spend(kTicksAnItem * items.size());
    return paths.Shortest(price, Prefer::kFewestRuns);
  };
  // The lowest price at which `runs` runs suffice.
  uint64_t low = 0;
  uint64_t high = 0;
  Cuts cuts = fewest(high);
  while (cuts.size() - 1 > runs) {
    if (allowance.stop_requested()) return cuts;
    low = high;
    high = std::max<uint64_t>(1, 2 * high);
    cuts = fewest(high);
  }
  while (low + 1 < high) {
    if (allowance.stop_requested()) return cuts;
    const uint64_t middle = low + (high - low) / 2;
    Cuts tried = fewest(middle);
    if (tried.size() - 1 > runs) {
      low = middle;
    } else {
      high = middle;
      cuts = std::move(tried);
    }
  }
  if (cuts.size() - 1 == runs) return cuts;
  return Splice(cuts, paths.Shortest(high, Prefer::kMostRuns), runs);
}

}  // namespace batchplan
