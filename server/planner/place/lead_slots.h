// The slots of the leading pass for one mini-batch, before other passes follow.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_LEAD_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_LEAD_SLOTS_H_

#include <cstddef>
#include <vector>

#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/place/fixed_sizes.h"
#include "server/planner/place/group_placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Placements of `items`, mini-batch k, of which `pass` makes `problem` and which `numbers` has
// numbered. Each has its slots in the order that the pass asks for; the fastest comes first. They
// are what the solver finds (groups/solve_context.h), those of `fixed`, and, where TriesReferences,
// that of megatron_slots.h if it is found soon. Where rows are as wide as the longest of their
// size, the solver is asked again at more than Effort::kFast, as if groups held less, so that rows
// are narrower and long sequences are on large groups alone. None if nothing legal is found, or
// once a stop is requested.
std::vector<Placement> LeadSlots(const Pass& pass, const ContextProblem& problem,
                                 const SequenceLists& items, const ItemNumbers& numbers, size_t k,
                                 FixedSizes& fixed, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_LEAD_SLOTS_H_
