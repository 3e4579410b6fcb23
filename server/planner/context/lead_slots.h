// The slots of the pass that leads: of one mini-batch, before other passes follow.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_LEAD_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_LEAD_SLOTS_H_

#include <cstddef>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/context/context_problem.h"
#include "server/planner/context/fixed_sizes.h"
#include "server/planner/mini_batches.h"
#include "server/planner/pass.h"

namespace batchplan {

// Slots for the problem that `pass` makes of `items`, each in the order that the pass asks for, the
// fastest first: what the solver finds (solve/solve_context.h), those of `fixed`, and, where
// TriesReferences, those of megatron_slots.h if these are found soon. Of mini-batch k. None if
// nothing legal is found, or once a stop is requested.
std::vector<ContextSlots> LeadSlots(const Pass& pass, const ContextProblem& problem,
                                    const SequenceLists& items, size_t k, FixedSizes& fixed,
                                    const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_LEAD_SLOTS_H_
