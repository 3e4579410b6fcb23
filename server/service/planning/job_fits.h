// The fits of all jobs, in the store that replicas share: what ReportStep counts, and what requests
// for fitted costs are planned with.
//
//   JobFits fits(&store);
//   absl::StatusOr<std::optional<MeasuredStep>> measured =
//       ReportStep(&fits, owner, report_request, &response);
//   if (request.cost_model().fitted()) {
//     absl::StatusOr<v1::CostModel> costs = FittedCostModel(&fits, request);
//     ... plan with *costs as the request's cost_model ...
//   }
//
// Thread-safe. Calls take the store's time: one call of it for Get, two for Add, and two more each
// time that another call was faster: this replica's own calls of one job better come one at a time.
// An error of the store is returned as it is.

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

// A job's fit once a report was offered to it.
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
  // the state. That an id is one (base/ids.h) was checked when the call came.
  absl::StatusOr<JobFit> Get(const std::string& job_id);

  // Folds a valid report of `owner` into the job's fit, in the store. Errors as of Get; Unavailable
  // if others were faster kMaxAttempts times in a row.
  absl::StatusOr<CountedReport> Add(const std::string& job_id, const StepReport& report,
                                    const std::string& owner);

  static constexpr int kMaxAttempts = 64;

 private:
  FitStore* store_;
};

// The coefficients that are fitted for request.job_id now; where the request has dynamic_context
// and groups of a single size were reported, with the default exchange. Its loads are those that
// the request's cost model names, separate or dealt as there, and those of its manifest, unless the
// request is one that is planned without costs of loads. The time of one call of the store, which
// may block.
//
// InvalidArgument if the job id is empty, if a cost is set beside cost_model.fitted, or if the
// job's loads alone cost anything and the plan has none of them; FailedPrecondition, naming the
// job, its micro-batches so far and how many are needed, if there are too few; JobFits' errors as
// they are.
absl::StatusOr<v1::CostModel> FittedCostModel(JobFits* fits, const v1::PlanBatchRequest& request);

// Counts the micro-batches of `request`, which `owner` sent, into its job's fit, and writes what is
// fitted now into `response`, which on an error is to be thrown away. Returns what the step took,
// if the request holds all of it and was not counted before.
//
// InvalidArgument, naming field, value and limit; Unimplemented for a synchronization that this
// version does not know; JobFits' errors as they are.
absl::StatusOr<std::optional<MeasuredStep>> ReportStep(JobFits* fits, const std::string& owner,
                                                       const v1::ReportStepRequest& request,
                                                       v1::ReportStepResponse* response);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_JOB_FITS_H_
