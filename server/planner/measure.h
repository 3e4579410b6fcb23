// Stage 5, measure: how good a pass's plan is, and how good any could be.

#ifndef BATCHPLAN_SERVER_PLANNER_MEASURE_H_
#define BATCHPLAN_SERVER_PLANNER_MEASURE_H_

#include <cstdint>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/plan.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Writes the metrics of `plan`, whose arrays are complete. Adds to the decision of each mini-batch
// its fewest slots, and the step time of the slots that it has. `bounds` has one entry a
// mini-batch.
//
// If sizes differ, the ranks of a metric are those of the pool. A rank has the cost of its group,
// and the group's tokens divided by the group's ranks. Utilization compares a group's row with the
// group's part of the budget, ranks * max_tokens_per_microbatch / context_parallel; over a slot
// these parts add up to data_parallel * max_tokens_per_microbatch.
//
// O(n), and on pipelines one simulation of each rank, or of each part of the pool. Any metrics once
// a stop is requested.
void Measure(const Manifest& manifest, const Pass& pass, std::span<const MiniBatchBounds> bounds,
             const Allowance& allowance, PassPlan& plan);

// Writes the metrics of what is trained and what waits, of a pass whose arrays are complete.
void MeasureTaken(const Manifest& manifest, std::span<const uint32_t> deferred, PassPlan& plan);

// PlanMetrics.bin_balance: 1 - s/mean of how full the non-empty micro-batches are, in true tokens
// of the budget, with s the sample standard deviation (n - 1); 1 for a single one.
double BinBalance(std::span<const double> filled);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MEASURE_H_
