// From a request for fitted costs to one that names them.
//
//   if (request.cost_model().fitted()) {
//     absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits, request);
//     ... plan with *costs as the request's cost_model ...
//   }

#ifndef BATCHPLAN_SERVER_SERVICE_FITTED_COSTS_H_
#define BATCHPLAN_SERVER_SERVICE_FITTED_COSTS_H_

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/fitting/cost_fit.h"
#include "server/service/job_fits.h"

namespace batchplan {

// The coefficients as a request carries them.
v1::CostModel WireCosts(const FittedCosts& costs);

// The coefficients that are fitted for request.job_id now. The time of one call of the store, which
// may block.
//
// InvalidArgument if the job id is empty or overlong, or if something is set beside
// cost_model.fitted; FailedPrecondition, naming the job, its micro-batches so far and how many are
// needed, if there are too few; JobFits' errors as they are.
absl::StatusOr<v1::CostModel> FittedCostModel(JobFits* fits, const v1::PlanBatchRequest& request);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_FITTED_COSTS_H_
