// Splits of the sorted order into padded micro-batches.
//
// In the padded layout a micro-batch is [sequences, width]: every sequence is padded to the
// longest. So items are sorted by width, and a micro-batch is a *run* of that order, as wide as its
// last item. A *split* is the order cut into runs, given by its *cuts*. Made here are the split
// with the fewest runs (SortedScan), the one with the fewest padded tokens (OptimalSplit), and the
// one whose costliest run is cheapest (LevelSplit); ImproveSlots improves a split for ranks that
// meet after every slot. All keep the limits on tokens, sequences and loads. If a run keeps them,
// every part of it does.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_SPLITS_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_SPLITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/padded/run_load.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Views of one order.
struct PaddedItems {
  // Aligned, ascending, at least 1.
  std::span<const uint32_t> widths;
  // Sequences in an item; empty: one each.
  std::span<const uint32_t> counts = {};
  // The limited loads. Every item fits alone.
  std::span<const RunLoad> loads = {};

  size_t size() const { return widths.size(); }
  uint32_t count(size_t item) const { return counts.empty() ? 1 : counts[item]; }
  // Whether the loads' limits allow a run.
  bool LoadsAllow(size_t begin, size_t end) const {
    for (const RunLoad& load : loads) {
      if (!load.Allows(begin, end)) return false;
    }
    return true;
  }
};

struct PaddedLimits {
  // Sequences times width of a micro-batch. Every item fits alone.
  uint64_t tokens = 0;
  uint64_t sequences = std::numeric_limits<uint64_t>::max();

  bool Allow(uint64_t count, uint32_t width) const {
    // Counts are below 2^31: no overflow.
    return count <= sequences && count * width <= tokens;
  }
};

// Run m is the items [cuts[m], cuts[m + 1]); none is empty.
using Cuts = std::vector<uint32_t>;

// The greedy split, as NeMo-RL's and ROLL's dynamic batching make it: walks the items by ascending
// width and closes a run when the next item would break a limit. No
// split of the sorted order has fewer runs; with one sequence an item and no limited loads, no
// split at all. O(n).
Cuts SortedScan(const PaddedItems& items, const PaddedLimits& limits);

// SortedScan for ranks that share their runs and widths: run m has the same positions on every
// rank, and is as wide as the longest there on any rank. All ranks have the same number of items,
// and each position fits alone. O(n).
Cuts SharedSortedScan(std::span<const PaddedItems> ranks, const PaddedLimits& limits);

// Halves runs, those with most padded tokens first and the smaller half in front, until there are
// `runs`: at least cuts.size() - 1, at most the number of items. `ranks` as for SharedSortedScan;
// one for a single rank. O(n log n).
Cuts HalveRuns(std::span<const PaddedItems> ranks, const Cuts& cuts, size_t runs);

// Of all splits into exactly `runs` runs within the limits, one whose costliest run is cheapest.
// Looks for the least level of cost at which a greedy scan, whose runs are as long as limits and
// level allow, needs no more than `runs`; then halves runs, the costliest first, until there are
// `runs`.
//
// `costs` has for each item the cost of one sequence of its width. So costs ascend, except at items
// that nothing fits beside. A run costs its sequences times the cost at its last item. All
// sequences together times the highest cost are below 2^62. Needs SortedScan's number of runs <=
// runs <= items.size(), runs >= 1. O(n + runs log n log cost). Once a stop is requested it ends
// soon with some split.
Cuts LevelSplit(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits, size_t runs, const Allowance& allowance = {});

// For each position, the furthest end that limited loads allow a run from there. O(n).
std::vector<uint32_t> ReachOfLoads(const PaddedItems& items);

// The costs of a split's runs.
std::vector<uint64_t> RunCosts(const PaddedItems& items, std::span<const uint64_t> costs,
                               const Cuts& cuts);

// The most items for which OptimalSplit is fast enough for a balanced plan.
inline constexpr size_t kMostForOptimalSplit = 16384;

// Of all splits into exactly `runs` runs within the limits, one with the fewest padded tokens: the
// least sum of sequences times width. Needs SortedScan's number of runs <= runs <= items.size().
//
// Tokens of a run satisfy the Monge condition, so the least sum is convex in the number of runs: a
// price per run is searched for which that number is optimal, and each price costs one shortest
// path over the positions (A. Aggarwal, B. Schieber, T. Tokuyama, "Finding a minimum-weight k-link
// path in graphs with the concave Monge property", 1994). O(n log n log tokens) time, O(n) memory.
// Once a stop is requested it ends soon with a split into any number of runs.
Cuts OptimalSplit(const PaddedItems& items, const PaddedLimits& limits, size_t runs,
                  const Allowance& allowance = {});

// The sum over slots of the costliest run, where the costliest `ranks` runs share the first slot,
// and so on: no other division into slots has a lower sum. `ranks` divides the number of runs.
uint64_t LockstepCost(std::span<const uint64_t> run_costs, uint32_t ranks);

// Moves the cuts one at a time, by strides that shrink to one item, while that lowers LockstepCost
// (`costs` as for LevelSplit); keeps the limits and the number of runs. LevelSplit is the better
// start for few slots, OptimalSplit often for more; to try both is worth the time. Looks at `steps`
// runs at most, or as many as the allowance affords; at none once a stop is requested. O(n +
// steps).
Cuts ImproveSlots(const PaddedItems& items, std::span<const uint64_t> costs,
                  const PaddedLimits& limits, uint32_t ranks, Cuts cuts, uint64_t steps,
                  const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_SPLITS_H_
