// Splits of the sorted order into padded micro-batches.
//
// In the padded layout a micro-batch is [sequences, width]: every sequence is padded to the
// longest. So items are sorted by width, and a micro-batch is a *run* of that order, as wide as its
// last item. A *split* is the order cut into runs, told by its *cuts*. Of the splits within the
// limits here are the one with the fewest runs (SortedScan), that with the fewest padded tokens
// (OptimalSplit), that whose costliest run is cheapest (LevelSplit), and one made better for ranks
// that meet after every slot (ImproveSlots). The limits are those on tokens, on sequences and on
// loads: where a run keeps them, every part of it does.

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

// Splits for ranks that share their runs and widths: run m of every rank is the same positions,
// its width the longest on any rank. All ranks have the same number of items, and each position
// fits alone. O(n).
Cuts SharedSortedScan(std::span<const PaddedItems> ranks, const PaddedLimits& limits);

// Halves runs, those with the most padded tokens first and the smaller half in front, until there
// are `runs`, between cuts.size() - 1 and the number of items. `ranks` as above; one for a rank
// alone. O(n log n).
Cuts HalveRuns(std::span<const PaddedItems> ranks, const Cuts& cuts, size_t runs);

// Of all splits into exactly `runs` runs within the limits, one whose costliest run is cheapest.
// Looks for the least level at which a scan from the front, as far as limits and level allow, needs
// no more runs; then halves runs, the costliest first, up to their number.
//
// `costs` has, for each item, the cost of one sequence of its width, so costs ascend, but for items
// that nothing fits beside. A run costs its sequences times the cost at its last item. All
// sequences together times the highest cost are below 2^62. Needs SortedScan's number of runs <=
// runs <= items.size(), runs >= 1. O(n + runs log n log cost). Once a stop is requested it ends
// soon, with some split.
Cuts LevelSplit(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits, size_t runs, const Allowance& allowance = {});

// The furthest end of a run from each position that limited loads allow. O(n).
std::vector<uint32_t> ReachOfLoads(const PaddedItems& items);

// The costs of a split's runs.
std::vector<uint64_t> RunCosts(const PaddedItems& items, std::span<const uint64_t> costs,
                               const Cuts& cuts);

// The most items for which a balanced plan has the time that OptimalSplit takes.
inline constexpr size_t kMostForOptimalSplit = 16384;

// The split that schedules the fewest tokens: of all splits into exactly `runs` runs within the
// limits, one that has the least sum of sequences times width. Needs SortedScan's number of runs <=
// runs <= items.size().
//
// Tokens of a run satisfy the Monge condition, so the least sum is convex in the number of runs: a
// price per run is searched for which that number is optimal, and each price costs one shortest
// path over the positions (A. Aggarwal, B. Schieber, T. Tokuyama, "Finding a minimum-weight k-link
// path in graphs with the concave Monge property", 1994). O(n log n log tokens) time, O(n) memory.
// Once a stop is requested it ends soon, with a split into any number of runs.
Cuts OptimalSplit(const PaddedItems& items, const PaddedLimits& limits, size_t runs,
                  const Allowance& allowance = {});

// The sum over the slots of their costliest runs, where the costliest `ranks` runs share the first
// slot, and so on: no other division into slots has a lower one. `ranks` divides the number of
// runs.
uint64_t LockstepCost(std::span<const uint64_t> run_costs, uint32_t ranks);

// Moves the cuts one at a time, by strides that shrink to one item, while that lowers LockstepCost
// (`costs` as for LevelSplit); the number of runs stays and the limits are kept.
// LevelSplit is the better start where slots are few, OptimalSplit often where they are more; the
// better one of both results is worth the time. At most `steps` runs are looked at, or what the
// allowance affords; none once a stop is requested. O(n + steps).
Cuts ImproveSlots(const PaddedItems& items, std::span<const uint64_t> costs,
                  const PaddedLimits& limits, uint32_t ranks, Cuts cuts, uint64_t steps,
                  const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_SPLITS_H_
