#include "server/service/fitted_costs.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/batchplan/v1/convert.h"

namespace batchplan {

v1::CostModel WireCosts(const FittedCosts& costs) {
  v1::CostModel model;
  model.set_per_token(costs.per_token);
  model.set_per_token_squared(costs.per_token_squared);
  model.set_per_microbatch(costs.per_microbatch);
  return model;
}

absl::StatusOr<v1::CostModel> FittedCostModel(JobFits* fits, const v1::PlanBatchRequest& request) {
  absl::Status alone = CheckFittedStandsAlone(request.cost_model());
  if (!alone.ok()) return alone;
  const absl::StatusOr<JobFit> fit = fits->Get(request.job_id());
  if (!fit.ok()) return fit.status();
  const std::optional<FittedCosts> costs = Costs(fit->costs);
  if (!costs) {
    return absl::FailedPreconditionError(
        absl::StrCat("cost_model.fitted is set, but of job \"", absl::CEscape(request.job_id()),
                     "\" ", fit->costs.samples, " micro-batches were reported, and ", kMinSamples,
                     " are needed; send ReportStep, and plan with other costs until then"));
  }
  return WireCosts(*costs);
}

}  // namespace batchplan
