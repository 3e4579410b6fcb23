#include "server/service/report_step.h"

#include <optional>

#include "absl/status/statusor.h"
#include "server/service/fitted_costs.h"

namespace batchplan {
namespace {

StepReport ReadReport(const v1::ReportStepRequest& request) {
  StepReport report = {.step = request.step(), .microbatches = {}};
  report.microbatches.reserve(static_cast<size_t>(request.microbatches_size()));
  for (const v1::MicrobatchTiming& timing : request.microbatches()) {
    report.microbatches.push_back({.tokens = timing.tokens(),
                                   .tokens_squared = timing.tokens_squared(),
                                   .milliseconds = timing.milliseconds(),
                                   .peak_bytes = timing.peak_bytes()});
  }
  return report;
}

}  // namespace

absl::Status ReportStep(JobFits* fits, const std::string& owner,
                        const v1::ReportStepRequest& request, v1::ReportStepResponse* response) {
  const StepReport report = ReadReport(request);
  absl::Status valid = report.Validate();
  if (!valid.ok()) return valid;

  const absl::StatusOr<CountedReport> result = fits->Add(request.job_id(), report, owner);
  if (!result.ok()) return result.status();

  response->set_samples(result->fit.costs.samples);
  response->set_already_counted(!result->counted && !report.microbatches.empty());
  if (const std::optional<FittedCosts> costs = Costs(result->fit.costs)) {
    *response->mutable_fitted() = WireCosts(*costs);
    response->set_fit_error(costs->fit_error);
    response->set_outlier_share(costs->outlier_share);
  }
  if (request.memory_limit_bytes() > 0) {
    response->set_suggested_max_tokens_per_microbatch(
        SuggestTokens(result->fit.memory, request.memory_limit_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace batchplan
