// The fits of all jobs, in the store that replicas share.
//
//   JobFits fits(&store);
//   absl::StatusOr<CountedReport> counted = fits.Add("grpo-7b", report, owner);
//   absl::StatusOr<JobFit> fit = fits.Get("grpo-7b");
//
// Thread-safe. Calls take the store's time: one call of it for Get, two for Add, and two more each
// time that another call was faster: this replica's own calls of one job better come one at a time.
// An error of the store is returned as it is.

#ifndef BATCHPLAN_SERVER_SERVICE_JOB_FITS_H_
#define BATCHPLAN_SERVER_SERVICE_JOB_FITS_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/fitting/job_fit.h"
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
  // InvalidArgument for an empty or overlong job id; FailedPrecondition if another version of
  // batchplan wrote the state.
  absl::StatusOr<JobFit> Get(const std::string& job_id);

  // Folds a valid report of `owner` into the job's fit, in the store. Errors as of Get; Unavailable
  // if others were faster kMaxAttempts times in a row.
  absl::StatusOr<CountedReport> Add(const std::string& job_id, const StepReport& report,
                                    const std::string& owner);

  static constexpr int kMaxAttempts = 64;

 private:
  FitStore* store_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_JOB_FITS_H_
