// What a report on several plans shows of each: the figures of one pass.

#ifndef BATCHPLAN_CLIENT_CLI_REPORTS_FIGURES_H_
#define BATCHPLAN_CLIENT_CLI_REPORTS_FIGURES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "batchplan/v1/plan.pb.h"
#include "client/cli/output/microbatches.h"

namespace batchplan::cli {

struct Figures {
  // The planner's own; predicted_step_time is under the request's synchronization.
  v1::PlanMetrics metrics;
  // Under both; the request's own is metrics.predicted_step_time.
  StepTimes step_times;
  // Of the whole plan, all passes.
  double planning_milliseconds = 0;
};

// That plans of the request by other options are of the same batch. InvalidArgument if its
// selection may choose another one for each.
absl::Status CheckOneBatch(const v1::PlanBatchRequest& request);

// The position of the pass called `name`, or of the first if `name` is empty. InvalidArgument,
// listing the names, if the request has no such pass, or none at all.
absl::StatusOr<int> FindPass(const v1::PlanBatchRequest& request, const std::string& name);

// Plans `request` over `client` and takes the figures of the pass at position `pass`. The errors
// are the planner's.
absl::StatusOr<Figures> PlanFigures(const Client& client, const v1::PlanBatchRequest& request,
                                    int pass);

// Whether `a` is the better plan of the same batch on the same ranks: less predicted step time,
// then fewer micro-batches.
bool IsBetter(const Figures& a, const Figures& b);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REPORTS_FIGURES_H_
