#include "server/planner/packing/first_fit_decreasing.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "server/planner/packing/bin_runs.h"
#include "server/planner/packing/first_fit.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {
namespace {

// The lowest run that holds the length. A run that does not waits for the first length that it
// holds, in a list of those that wait for the same.
class LowestRun {
 public:
  LowestRun(const BinRuns& runs, const LengthIndex& index, size_t lengths, size_t most_bins)
      : runs_(runs),
        index_(index),
        waiting_(lengths, kNone),
        next_(std::make_unique_for_overwrite<uint32_t[]>(most_bins + 1)),
        holds_(most_bins + 1) {}

  void Open(size_t length) {
    length_ = index_.length(length);
    for (uint32_t run = waiting_[length]; run != kNone; run = next_[run]) Hold(run);
  }

  void Add(uint32_t run) {
    if (runs_[run].room >= length_) {
      // What is left of the lowest run comes before all others.
      if (lowest_ == kNone) {
        lowest_ = run;
      } else {
        Hold(run);
      }
      return;
    }
    const size_t length = index_.UpTo(runs_[run].room);
    if (length == waiting_.size()) return;
    next_[run] = waiting_[length];
    waiting_[length] = run;
  }

  uint32_t Take() {
    if (lowest_ != kNone) return std::exchange(lowest_, kNone);
    const size_t run = holds_.AtLeast(0);
    holds_.Erase(run);
    return static_cast<uint32_t>(run);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void Hold(uint32_t run) {
    if (run < lowest_ && lowest_ != kNone) std::swap(run, lowest_);
    holds_.Insert(run);
  }

  const BinRuns& runs_;
  const LengthIndex& index_;
  uint32_t length_ = 0;
  std::vector<uint32_t> waiting_;
  // Of waiting runs.
  std::unique_ptr<uint32_t[]> next_;
  // Those that hold the length: the lowest of all, if it is known, and the others.
  uint32_t lowest_ = kNone;
  IndexSet holds_;
};

}  // namespace

Bins PackFirstFitDecreasing(const PackItems& items, const BinLimits& limits) {
  if (!items.counts.empty()) return PackFirstFit(DecreasingOrder(items.lengths), items, limits);
  return PackFirstFitDecreasing(SortDecreasing(items.lengths), limits, MostBins(items, limits));
}

Bins PackFirstFitDecreasing(const DecreasingItems& items, const BinLimits& limits,
                            size_t most_bins) {
  return PackByRuns<LowestRun>(items, limits, most_bins);
}

}  // namespace batchplan
