// Stage 5, measure: how good a pass's plan is, and how good any could be.

#ifndef BATCHPLAN_SERVER_PLANNER_MEASURE_H_
#define BATCHPLAN_SERVER_PLANNER_MEASURE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/cost.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/plan.h"

namespace batchplan {

// The fewest micro-batches that one mini-batch of these aligned lengths can have, over all ranks,
// and the costliest of its sequences.
struct MiniBatchBounds {
  uint64_t microbatches = 0;
  Cost longest = 0;
};

// The metrics of `pass`, whose arrays are complete. `aligned` holds the aligned length of each
// sequence of the manifest, `bounds` one entry a mini-batch. The lower bound on step time is, for
// each mini-batch, the larger of the mean rank and the costliest sequence. O(n).
PlanMetrics Measure(const Manifest& manifest, const PlanOptions& options,
                    const PassOptions& pass_options, const PassPlan& pass,
                    std::span<const uint32_t> aligned, const CostFunction& cost,
                    const std::vector<MiniBatchBounds>& bounds);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MEASURE_H_
