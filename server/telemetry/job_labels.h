// A bounded set of label values for job ids, which clients make up: max_labels jobs have labels of
// their own, the others share one.
//
//   JobLabels labels({.max_labels = 100}, [&](const std::string& label) { ... remove series ... });
//   counter_of[labels.LabelOf(request.job_id(), absl::Now())]->Increment();
//
// While labels are left, a job gets one with its first call, and keeps it as long as it goes on
// calling. Later, a job without a label gets that of the job that has been idle longest, if that is
// at least an hour. So made-up names never take the label of an active job, however many there are.
//
// O(log max_labels); allocates for new jobs only. Not thread-safe: hold one lock for LabelOf and
// for counting, so that nothing is counted under a label whose series have been removed.

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

// The labels of jobs without one of their own, and of requests without a job id. A job of such a
// name is counted with them.
inline constexpr std::string_view kOtherJobs = "other";
inline constexpr std::string_view kUnsetJob = "unset";

struct JobLabelOptions {
  // Besides kOtherJobs and kUnsetJob.
  size_t max_labels = 100;
  // How long a job must have been idle to lose its label to any other.
  absl::Duration idle = absl::Hours(1);
};

class JobLabels {
 public:
  // `retire` is called with each label that is taken from its job, before another gets it.
  JobLabels(const JobLabelOptions& options, std::function<void(const std::string&)> retire)
      : options_(options), retire_(std::move(retire)) {}

  JobLabels(const JobLabels&) = delete;
  JobLabels& operator=(const JobLabels&) = delete;

  // The label under which a call of `job_id` at `now` counts; if times go back, the latest so far
  // is used. kOtherJobs also for an id that is longer than kMaxIdBytes or not plain text. Valid
  // until the next call.
  std::string_view LabelOf(std::string_view job_id, absl::Time now);

 private:
  struct Job {
    std::string name;
    absl::Time last;
  };

  const JobLabelOptions options_;
  const std::function<void(const std::string&)> retire_;

  // Jobs with labels, the longest idle first; and the place of each, by its name.
  std::list<Job> jobs_;
  std::map<std::string_view, std::list<Job>::iterator> places_;
  absl::Time latest_ = absl::InfinitePast();
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
