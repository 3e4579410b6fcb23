// Stage 5 where slots divide a pool: how good a pass's plan is, and how good any could be.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_MEASURE_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_MEASURE_SLOTS_H_

#include "server/planner/allowance.h"
#include "server/planner/manifest.h"
#include "server/planner/mini_batches.h"
#include "server/planner/pass.h"
#include "server/planner/plan.h"

namespace batchplan {

// The metrics of `plan`, whose arrays are complete. The ranks of a metric are those of the pool:
// each has its group's tokens over the ranks of the group, and what its group costs each of them.
// What is filled is that of a group's part of the budget, ranks * max_tokens_per_microbatch /
// context_parallel, which over a slot is data_parallel * max_tokens_per_microbatch. Ideal are
// sequences of the least alignment on ranks that all are busy for equally long, without exchange,
// in as few slots as hold their tokens. Once a stop is requested, of no use. O(n sizes log n).
PlanMetrics MeasureSlots(const Manifest& manifest, const Pass& pass,
                         const SequenceLists& mini_batches, const PassPlan& plan,
                         const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_MEASURE_SLOTS_H_
