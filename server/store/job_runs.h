// The runs of jobs, in the order in which they were first seen: the last one of a job is its
// current run, and has superseded the others.
//
//   JobRuns runs(/*max_jobs=*/4096, absl::Hours(24));
//   if (runs.See("job", "run 2", now) != "run 2") ... a later run has superseded it ...
//
// Remembers the latest kMaxRunsOfAJob runs of a job until it has not been seen for the lifetime,
// and the jobs that were seen last: at most 8 KiB for each of max_jobs. Not thread-safe. A call
// takes O(log jobs + runs of the job); one that throws std::bad_alloc changes nothing.

#ifndef BATCHPLAN_SERVER_STORE_JOB_RUNS_H_
#define BATCHPLAN_SERVER_STORE_JOB_RUNS_H_

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace batchplan {

class JobRuns {
 public:
  // max_jobs >= 1.
  JobRuns(size_t max_jobs, absl::Duration lifetime)
      : max_jobs_(max_jobs), lifetime_(absl::ToChronoNanoseconds(lifetime)) {}

  // The job's current run: `run` itself, if it is not known yet.
  std::string See(const std::string& job, const std::string& run, Instant now);

  // The job's current run if it has superseded `run`. None if `run` is that one, or if it was not
  // seen yet, or so long ago that it is not known any more.
  std::optional<std::string> Superseding(const std::string& job, const std::string& run,
                                         Instant now) const;

 private:
  struct Job {
    // The current one last.
    std::vector<std::string> runs;
    Instant expiry;
    std::list<std::string>::iterator use;
  };

  const size_t max_jobs_;
  const Instant::duration lifetime_;
  std::map<std::string, Job> jobs_;
  // The least recently seen first.
  std::list<std::string> uses_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_JOB_RUNS_H_
