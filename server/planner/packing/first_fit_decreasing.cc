#include "server/planner/packing/first_fit_decreasing.h"

#include <cstdint>
#include <limits>
#include <memory>
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
    for (uint32_t run = waiting_[length]; run != kNone; run = next_[run]) holds_.Insert(run);
  }

  void Add(uint32_t run) {
    if (runs_[run].room >= length_) {
      holds_.Insert(run);
      return;
    }
    const size_t length = index_.UpTo(runs_[run].room);
    if (length == waiting_.size()) return;
    next_[run] = waiting_[length];
    waiting_[length] = run;
  }

  uint32_t Take() {
    const size_t run = holds_.AtLeast(0);
    holds_.Erase(run);
    return static_cast<uint32_t>(run);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  const BinRuns& runs_;
  const LengthIndex& index_;
  uint32_t length_ = 0;
  std::vector<uint32_t> waiting_;
  // Of waiting runs.
  std::unique_ptr<uint32_t[]> next_;
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
