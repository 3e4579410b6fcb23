// The first micro-batches of pipelines: items into the bins that they are meant for.

#ifndef BATCHPLAN_SERVER_PLANNER_LANES_FILL_LANES_H_
#define BATCHPLAN_SERVER_PLANNER_LANES_FILL_LANES_H_

#include <cstdint>
#include <span>

#include "server/planner/lanes/lanes.h"
#include "server/planner/lanes/targets.h"

namespace batchplan {

// Puts all items into `lanes`, which are empty: first those that `targets` places, then the rest in
// `descending` order of load, each into the bin furthest below its target that holds it. No bin
// stays empty. False, with some items placed, if an item finds no room.
bool FillByTargets(const PipelineTask& task, const Targets& targets,
                   std::span<const uint32_t> descending, Lanes& lanes);

// Fills lanes whose bins are few and tight: packs bins as full as can be, and gives the costliest
// of them to the highest targets of the ranks with least work. False if the packing needs more
// bins, or if ranks are given or have equal counts.
bool FillByPacking(const PipelineTask& task, const Targets& targets, Lanes& lanes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_LANES_FILL_LANES_H_
