// The balanced solver for pipelines: ranks, micro-batches and their order together.

#ifndef BATCHPLAN_SERVER_PLANNER_LANES_BALANCE_H_
#define BATCHPLAN_SERVER_PLANNER_LANES_BALANCE_H_

#include <optional>

#include "server/planner/lanes/targets.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

struct PipelineBins {
  // Slot s of rank r is bin r * slots + s, in the order in which the rank runs them.
  Bins bins;
  // The makespan of the slowest rank; in lockstep, of the slots' costliest micro-batches.
  double makespan = 0;
};

// Puts the items into exactly ranks * slots bins within the limits, none of them empty, such that
// the slowest rank's pipeline is done soon. Needs at least as many items as bins, on each rank if
// the ranks are given. Nothing if no such packing is found.
//
// Begins with `start`, if given: ranks * slots bins that hold all items. Otherwise bins get targets
// (targets.h), and each item goes to the bin furthest below its target (fill_lanes.h). Then the
// slowest rank exchanges items within itself and with others, and changes its order, as long as
// simulations say that it gets faster. Deterministic; O(n log n) and simulations by the effort.
std::optional<PipelineBins> BalancePipeline(const PipelineTask& task, const Bins* start = nullptr);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_LANES_BALANCE_H_
