// The fits of all jobs, in the store that replicas share: ReportStep adds to them, and requests for
// fitted costs are planned with them.
//
//   JobFits fits(&store);
//   absl::StatusOr<std::optional<MeasuredStep>> measured =
//       ReportStep(&fits, owner, report_request, &response);
//   if (request.cost_model().fitted()) {
//     absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits, request);
//     ... plan with *costs as the request's cost_model ...
//   }
//
// Thread-safe. Get makes one call of the store, Add two, and two more each time that another call
// was faster, so a replica had better make its calls for one job one at a time. Errors of the store
// are returned as they are.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_JOB_FITS_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_JOB_FITS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/fitting/job_fit.h"
#include "server/fitting/measured_step.h"
#include "server/store/fit_store.h"

namespace batchplan {

// A job's fit after a report was offered.
struct CountedReport {
  JobFit fit;
  // False if the report was in already, or is empty.
  bool counted = false;
};

class JobFits {
 public:
  // `store` outlives this.
  explicit JobFits(FitStore* store) : store_(store) {}

  // An empty fit for a job without one, and for one whose state is damaged, which is logged.
  // InvalidArgument for an empty job id; FailedPrecondition if another version of batchplan wrote
  // the state. Ids are checked (base/ids.h) when the call arrives.
  absl::StatusOr<JobFit> Get(const std::string& job_id);

  // Folds a valid report of `owner` into the job's fit, in the store. Errors as of Get; Unavailable
  // if others were faster kMaxAttempts times in a row.
  absl::StatusOr<CountedReport> Add(const std::string& job_id, const StepReport& report,
                                    const std::string& owner);

  static constexpr int kMaxAttempts = 64;

 private:
  FitStore* store_;
};

// The coefficients now fitted for request.job_id. If the request has dynamic_context and only
// groups of one size were reported, with the default exchange. With costs for the loads that the
// request's cost model names, separate or dealt as there, and for those of its manifest, unless
// such a request is planned without costs of loads. Makes one call of the store, which may block.
//
// InvalidArgument if the job id is empty, if a cost is set beside cost_model.fitted, or if only
// loads cost anything in the job's fit and the plan has none of them; FailedPrecondition, naming
// the job, its micro-batches so far and how many are needed, if there are too few; JobFits' errors
// as they are.
absl::StatusOr<v1::CostModel> FittedCostModel(JobFits* fits, const v1::PlanBatchRequest& request);

// Counts the micro-batches of `request`, which `owner` sent, into its job's fit, and writes the fit
// into `response`, which is useless after an error. Returns the step's times if the request holds
// all of the step and was not counted before.
//
// InvalidArgument, naming field, value and limit; Unimplemented for a synchronization that this
// version does not know; JobFits' errors as they are.
absl::StatusOr<std::optional<MeasuredStep>> ReportStep(JobFits* fits, const std::string& owner,
                                                       const v1::ReportStepRequest& request,
                                                       v1::ReportStepResponse* response);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_JOB_FITS_H_
