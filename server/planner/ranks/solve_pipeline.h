// The balanced solver where ranks are pipelines.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_PIPELINE_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "server/planner/lanes/balance.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Packed micro-batches for the pipelines of all ranks, as many on each as finish the slowest
// soonest: more micro-batches fill the pipeline better, but each has its fixed cost. Allowed
// numbers from `fewest` to `most` are compared by the time of the work if it could be divided at
// will (time/profile.h); the best of them are solved (lanes/balance.h).
//
// `rank_of` is the rank of each item, or empty. Nothing if no number is allowed, if no bins are
// found for all items, or once a stop is requested. Bin s of rank r is number r * slots + s.
// `solved` is called with the bins and the makespan of each number that is solved.
std::optional<Bins> SolveOnPipelines(const Pass& pass, const PackItems& items,
                                     double per_microbatch, std::span<const uint32_t> rank_of,
                                     uint64_t fewest, uint64_t most,
                                     const std::function<void(const PipelineBins&)>& solved,
                                     const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_PIPELINE_H_
