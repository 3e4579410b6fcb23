// A bounded set of labels for job ids, which clients invent: max_labels jobs have labels of their
// own, all others share one.
//
//   JobLabels labels({.max_labels = 100}, [&](const std::string& label) { ... remove series ... });
//   counter_of[labels.LabelOf(request.job_id(), absl::Now())]->Increment();
//
// A job gets a label with its first call while any are left, and keeps it as long as it calls.
// Later, a new job gets the label of the job that was idle longest, if that was at least an hour.
// So invented names never displace the label of an active job, however many there are.
//
// O(log max_labels); allocates only for new jobs. Not thread-safe: hold one lock for LabelOf and
// the counting, so that nothing is counted for a label whose series were removed.

#ifndef BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
#define BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"

namespace batchplan {

// The labels of jobs without their own, and of requests without a job id. A job that really has
// such a name shares it.
inline constexpr std::string_view kOtherJobs = "other";
inline constexpr std::string_view kUnsetJob = "unset";

struct JobLabelOptions {
  // Not counting kOtherJobs and kUnsetJob.
  size_t max_labels = 100;
  // How long a job must be idle before another can get its label.
  absl::Duration idle = absl::Hours(1);
};

class JobLabels {
 public:
  // Calls `retire` with each label that a job loses, before another gets it.
  JobLabels(const JobLabelOptions& options, std::function<void(const std::string&)> retire)
      : options_(options), retire_(std::move(retire)) {}

  JobLabels(const JobLabels&) = delete;
  JobLabels& operator=(const JobLabels&) = delete;

  // The label for a call of `job_id` at `now`; if `now` goes back, the latest time counts.
  // kOtherJobs also for an id that is longer than kMaxIdBytes or not plain text. Valid until the
  // next call.
  std::string_view LabelOf(std::string_view job_id, absl::Time now);

 private:
  struct Job {
    std::string name;
    absl::Time last;
  };

  const JobLabelOptions options_;
  const std::function<void(const std::string&)> retire_;

  // Jobs with labels, the longest idle first, and the place of each by its name.
  std::list<Job> jobs_;
  std::map<std::string_view, std::list<Job>::iterator> places_;
  absl::Time latest_ = absl::InfinitePast();
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
