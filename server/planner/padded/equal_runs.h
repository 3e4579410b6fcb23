// Runs of one sorted order that are dealt to ranks so that all have equally many items.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_EQUAL_RUNS_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_EQUAL_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/padded/splits.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Every rank has equally many runs. If micro-batches of given numbers of sequences on given ranks
// are within the limits, so are runs of the sorted order with the same numbers on the same ranks,
// and none is wider: no other plans need to be looked at.
struct EqualRuns {
  Cuts cuts;
  // The rank of each run.
  std::vector<uint32_t> rank_of;
};

// What ranks of padded micro-batches have: one sequence an item, no limited loads, and `slots` runs
// on each of `ranks` ranks. Views items and `costs`, which are as for LevelSplit.
struct EqualRunsTask {
  PaddedItems items;
  std::span<const uint64_t> costs;
  PaddedLimits limits;
  uint32_t ranks = 1;
  size_t slots = 1;
  bool lockstep = true;
};

// The step time of runs without fixed costs: in lockstep, where slot s has the s-th costliest run
// of each rank, the sum of the slots; otherwise the largest sum of a rank.
uint64_t StepCost(const EqualRunsTask& task, const EqualRuns& runs);

// Every slot has as many items on one rank as on any other, except that some ranks have one more of
// the shortest if ranks do not divide the items: the blocks of the `ranks` widest items, of the
// next ones, and so on are split by the level of cost, or halved. Nothing if the limits need more
// slots, or once a stop is requested. Needs at least slots * ranks items.
std::optional<EqualRuns> EqualBlocks(const EqualRunsTask& task, bool by_level,
                                     const Allowance& allowance);

// The runs of ranks whose items are given, rank_of[position] for each place in the sorted order,
// with the items of each rank split by the level of cost, or halved. Nothing if the limits need
// more slots.
std::optional<EqualRuns> RunsOfShares(const EqualRunsTask& task, std::span<const uint32_t> rank_of,
                                      bool by_level, const Allowance& allowance);

// Lets runs change places, ranks and numbers of items while that lowers StepCost; keeps the limits
// and each rank's number of items, within one where ranks do not divide them. A few runs are also
// improved from shaken copies of the best ones. Looks at `steps` runs at most, or as many as the
// allowance affords; at none once a stop is requested.
EqualRuns ImproveEqualRuns(const EqualRunsTask& task, EqualRuns runs, uint64_t steps,
                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_EQUAL_RUNS_H_
