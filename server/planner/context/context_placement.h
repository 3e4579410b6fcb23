// Where a mini-batch's sequences run where groups differ in size.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_PLACEMENT_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "server/planner/context/context_problem.h"
#include "server/planner/manifest.h"
#include "server/planner/pass.h"

namespace batchplan {

// One micro-batch on a group of so many ranks.
struct PlacedGroup {
  uint32_t ranks = 1;
  std::vector<SequenceIndex> sequences;
};

// The groups of each slot of one pass over one mini-batch. Those of a slot take the ranks of the
// pool in order.
using ContextPlacement = std::vector<std::vector<PlacedGroup>>;

// Slots of the problem that `pass` makes of `items`.
ContextPlacement PlacementOf(const Pass& pass, const SequenceLists& items,
                             const ContextSlots& slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_PLACEMENT_H_
