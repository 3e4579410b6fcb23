#include "server/planner/packing/best_fit_decreasing.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "server/planner/packing/best_fit.h"
#include "server/planner/packing/bin_runs.h"
#include "server/planner/packing/decreasing.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {
namespace {

// The fullest run that holds the length, the lowest of equally full ones. Runs stand by the longest
// length that they hold: of those classes, whose rooms do not overlap, the last one up to the
// current length has the fullest run. Each is a pairing heap (M. L. Fredman, R. Sedgewick,
// D. D. Sleator, R. E. Tarjan, 1986) by (room, first bin).
class FullestRun {
 public:
  FullestRun(const BinRuns& runs, const LengthIndex& index, size_t lengths, size_t most_bins)
      : runs_(runs),
        index_(index),
        root_(lengths, kNone),
        links_(std::make_unique_for_overwrite<Links[]>(most_bins + 1)),
        classes_(lengths) {}

  void Open(size_t length) { length_ = length; }

  void Add(uint32_t run) {
    if (runs_[run].size == 0) {
      unopened_ = run;
      return;
    }
    const size_t held = index_.UpTo(runs_[run].room);
    if (held == root_.size()) return;
    links_[run] = {.child = kNone, .sibling = kNone};
    if (root_[held] == kNone) classes_.Insert(held);
    root_[held] = Meld(root_[held], run);
  }

  uint32_t Take() {
    const size_t held = classes_.AtMost(length_);
    if (held == IndexSet::kNone) return unopened_;
    const uint32_t run = root_[held];
    root_[held] = MeldSiblings(links_[run].child);
    if (root_[held] == kNone) classes_.Erase(held);
    return run;
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  struct Links {
    uint32_t child;
    uint32_t sibling;
  };

  uint32_t Meld(uint32_t a, uint32_t b) {
    if (a == kNone) return b;
    if (b == kNone) return a;
    if (std::pair(runs_[b].room, b) < std::pair(runs_[a].room, a)) std::swap(a, b);
    links_[b].sibling = links_[a].child;
    links_[a].child = b;
    return a;
  }

  // One heap of a list of heaps: by twos, then the pairs from the last to the first.
  uint32_t MeldSiblings(uint32_t first) {
    uint32_t pairs = kNone;
    while (first != kNone) {
      const uint32_t second = links_[first].sibling;
      const uint32_t others = second == kNone ? kNone : links_[second].sibling;
      const uint32_t pair = Meld(first, second);
      links_[pair].sibling = pairs;
      pairs = pair;
      first = others;
    }
    uint32_t all = kNone;
    while (pairs != kNone) {
      const uint32_t others = links_[pairs].sibling;
      all = Meld(all, pairs);
      pairs = others;
    }
    return all;
  }

  const BinRuns& runs_;
  const LengthIndex& index_;
  size_t length_ = 0;
  // Holds every length, and comes after the others: in no heap.
  uint32_t unopened_ = kNone;
  std::vector<uint32_t> root_;
  // Of runs in a heap.
  std::unique_ptr<Links[]> links_;
  // Those that have a run.
  IndexSet classes_;
};

}  // namespace

Bins PackBestFitDecreasing(const PackItems& items, const BinLimits& limits) {
  if (!items.counts.empty()) return PackBestFit(DecreasingOrder(items.lengths), items, limits);
  return PackByRuns<FullestRun>(SortDecreasing(items.lengths), limits, MostBins(items, limits));
}

}  // namespace batchplan
