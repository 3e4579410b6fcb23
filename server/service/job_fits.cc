#include "server/service/job_fits.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/ids.h"
#include "server/fitting/fit_state.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

absl::Status CheckJobId(const std::string& job_id) {
  if (job_id.empty()) {
    return absl::InvalidArgumentError("job_id is empty; a fitted cost model is a job's");
  }
  return CheckId("job_id", job_id);
}

absl::StatusOr<JobFit> Parse(const std::string& job_id, const std::string& state) {
  absl::StatusOr<JobFit> fit = ParseFit(state);
  if (fit.ok()) return fit;
  const std::string message(fit.status().message());
  if (absl::IsDataLoss(fit.status())) {
    // Times will come again; a job that could never be fitted any more would be worse.
    Log(Severity::kError, "fit_state_damaged", {{"job", job_id}, {"error", message}});
    return JobFit();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("job \"", absl::CEscape(job_id), "\": ", message,
                   "; use the replicas of the version that wrote it, or another job_id"));
}

}  // namespace

absl::StatusOr<JobFit> JobFits::Get(const std::string& job_id) {
  absl::Status valid = CheckJobId(job_id);
  if (!valid.ok()) return valid;
  const absl::StatusOr<StoredFit> stored = store_->Get(job_id);
  if (!stored.ok()) return stored.status();
  return Parse(job_id, stored->state);
}

absl::StatusOr<CountedReport> JobFits::Add(const std::string& job_id, const StepReport& report,
                                           const std::string& owner) {
  absl::Status valid = CheckJobId(job_id);
  if (!valid.ok()) return valid;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const absl::StatusOr<StoredFit> stored = store_->Get(job_id);
    if (!stored.ok()) return stored.status();
    absl::StatusOr<JobFit> fit = Parse(job_id, stored->state);
    if (!fit.ok()) return fit.status();
    CountedReport result = {.fit = *std::move(fit)};
    result.counted = AddReport(report, result.fit);
    if (!result.counted) return result;
    const absl::StatusOr<bool> replaced =
        store_->Replace(job_id, stored->version, SerializeFit(result.fit), owner);
    if (!replaced.ok()) return replaced.status();
    if (*replaced) return result;
  }
  return absl::UnavailableError(absl::StrCat("other replicas replaced the fit of job \"",
                                             absl::CEscape(job_id), "\" ", kMaxAttempts,
                                             " times in a row; send the report again"));
}

}  // namespace batchplan
