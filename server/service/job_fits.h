// The fits of all jobs, in the store that replicas share.
//
//   JobFits fits(&store);
//   absl::StatusOr<CountedReport> counted = fits.Add("grpo-7b", report);
//   absl::StatusOr<JobFit> fit = fits.Get("grpo-7b");
//
// Thread-safe. Calls take the store's time: one call of it for Get, two for Add, and two more each
// time that another replica was faster. Of this replica's own calls for one job, one at a time is
// at it. An error of the store is returned as it is.

#ifndef BATCHPLAN_SERVER_SERVICE_JOB_FITS_H_
#define BATCHPLAN_SERVER_SERVICE_JOB_FITS_H_

#include <array>
#include <cstddef>
#include <mutex>
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

  // Folds a valid report into the job's fit, in the store. Errors as of Get; Unavailable if other
  // replicas were faster kMaxAttempts times in a row.
  absl::StatusOr<CountedReport> Add(const std::string& job_id, const StepReport& report);

  static constexpr int kMaxAttempts = 64;

 private:
  static constexpr size_t kLocks = 64;

  FitStore* store_;
  // By hash of the job: so calls of one replica do not compete for the state.
  std::array<std::mutex, kLocks> locks_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_JOB_FITS_H_
