// The predicted time of a mini-batch placed on ranks or on groups of ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_STEP_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_STEP_TIME_H_

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {

// The slots of micro-batches in the order of the plan (placement.h). `context_sizes` is empty if
// sizes don't differ.
TimedSlots TimedMicrobatches(const Pass& pass, std::span<const Cost> costs,
                             std::span<const uint32_t> context_sizes);

// The time of micro-batches in the order of the plan, given the costs of their rows and of each
// phase beside them (pass/slot_loads.h), all parallel to the micro-batches. In lockstep ranks wait
// for each other in every phase; accumulated, phases add up.
StepDuration StepOf(const Pass& pass, std::span<const Cost> rows,
                    std::span<const std::vector<Cost>> phases,
                    std::span<const uint32_t> context_sizes, const Allowance& allowance);

// The time of one mini-batch by the pass's clock (step_clock.h), rows padded as the pass asks.
// Groups that differ in size run in the order in which they stand. Ranks run their slots in the
// order that the pass asks for. If it asks for none and there is no pipeline, that is the order of
// PutCostliestRowsFirst (order.h); if it asks for the best order on a pipeline, it is the one
// found. Any value once a stop is requested.
Cost StepTime(const Pass& pass, const Placement& placement, const Allowance& allowance);

// StepTime of ranks, but on pipelines in the order in which micro-batches stand, which is simulated
// once and spends nothing. Any value once a stop is requested.
Cost TimeAsPlaced(const Pass& pass, const Placement& placement, const std::stop_token& stop);

// Whether the allowance affords the simulations of StepTime. True without a pipeline.
bool AffordsStepTime(const Pass& pass, const Placement& placement, const Allowance& allowance);
// AffordsStepTime of ranks with this many slots.
bool AffordsStepTime(const Pass& pass, uint64_t slots, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_STEP_TIME_H_
