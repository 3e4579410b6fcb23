// The first micro-batches of pipelines: items into the bins that they are meant for.

#ifndef BATCHPLAN_SERVER_PLANNER_LANES_FILL_LANES_H_
#define BATCHPLAN_SERVER_PLANNER_LANES_FILL_LANES_H_

#include <cstdint>
#include <span>

#include "server/planner/lanes/lanes.h"
#include "server/planner/lanes/targets.h"

namespace batchplan {

// Puts all items into `lanes`, which are empty: those that have a place there, then each of
// `descending`, the items by load, into the bin that lacks most of its target and holds it. No bin
// stays empty. False, with any of them put, if some item finds no place.
bool FillByTargets(const PipelineTask& task, const Targets& targets,
                   std::span<const uint32_t> descending, Lanes& lanes);

// Fills lanes whose bins are few and tight: packs bins as full as can be, and gives the costliest
// to the bins with the highest targets of the ranks that have least. False if it needs more bins,
// and where ranks are given or have equal counts.
bool FillByPacking(const PipelineTask& task, const Targets& targets, Lanes& lanes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_LANES_FILL_LANES_H_
