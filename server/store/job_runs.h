// The runs of jobs, in the order in which they were first seen. The last run of a job is its
// current one, and has superseded the others.
//
//   JobRuns runs(/*max_jobs=*/4096, absl::Hours(24));
//   if (runs.See("job", "run 2", now) != "run 2") ... a later run has superseded it ...
//
// If several replicas see the runs of a job, each run has the time at which the first of them saw
// it:
//
//   runs.Learn("job", {{"run 2", 1764093600123456}}, now);   // the earlier time of a run stands
//   for (const SeenRun& seen : runs.Known("job", now)) ... tell others ...
//
// Remembers the last max_jobs jobs, each until it has not been seen for the lifetime, with its
// latest kMaxRunsOfAJob runs: at most 8 KiB a job. Not thread-safe. O(log jobs + runs of the job) a
// call; a call that throws std::bad_alloc changes nothing.

#ifndef BATCHPLAN_SERVER_STORE_JOB_RUNS_H_
#define BATCHPLAN_SERVER_STORE_JOB_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace batchplan {

struct SeenRun {
  std::string run;
  // By any clock, but the same for all runs of a job.
  uint64_t time = 0;
};

class JobRuns {
 public:
  // max_jobs >= 1.
  JobRuns(size_t max_jobs, absl::Duration lifetime)
      : max_jobs_(max_jobs), lifetime_(absl::ToChronoNanoseconds(lifetime)) {}

  // Notes the run, and returns the job's current one: `run` itself if it is new.
  std::string See(const std::string& job, const std::string& run, Instant now);

  // The job's current run if it has superseded `run`. None if `run` is the current one, or not
  // known (any more).
  std::optional<std::string> Superseding(const std::string& job, const std::string& run,
                                         Instant now) const;

  // Adds what others know of the job's runs, in any order.
  void Learn(const std::string& job, const std::vector<SeenRun>& seen, Instant now);

  // The job's runs, the current one last; none if the job is not known (any more). Asking counts as
  // seeing: the job is remembered for the lifetime from now on.
  std::vector<SeenRun> Known(const std::string& job, Instant now);

  // The jobs with a run that is superseded.
  std::vector<std::string> JobsWithOrder(Instant now) const;

 private:
  struct Job {
    // By time, then name; at least one.
    std::vector<SeenRun> runs;
    Instant expiry;
    std::list<std::string>::iterator use;
  };

  using Jobs = std::map<std::string, Job>;

  // Does not find a job whose lifetime is over.
  Jobs::const_iterator Find(const std::string& job, Instant now) const;
  void Use(Jobs::iterator job, Instant now);

  const size_t max_jobs_;
  const Instant::duration lifetime_;
  Jobs jobs_;
  // The least recently seen first.
  std::list<std::string> uses_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_STORE_JOB_RUNS_H_
