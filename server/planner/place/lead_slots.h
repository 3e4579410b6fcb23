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

// Placements of mini-batch k, the fastest first, their slots in the order that the pass asks for.
// `problem` is the pass's problem of the mini-batch's `items`, which `numbers` has numbered. The
// placements are what the solver finds (groups/solve_context.h), those of `fixed`, and, if
// TriesReferences, that of megatron_slots.h if it is found soon. If rows are as wide as the longest
// of their size, efforts above kFast also ask the solver as if groups held less, so that rows are
// narrower and long sequences are on large groups alone. Empty if nothing legal is found, or once a
// stop is requested.
std::vector<Placement> LeadSlots(const Pass& pass, const ContextProblem& problem,
                                 const SequenceLists& items, const ItemNumbers& numbers, size_t k,
                                 FixedSizes& fixed, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_LEAD_SLOTS_H_
