// A bounded set of label values for job ids, which clients make up: so many jobs have labels of
// their own, the others share one.
//
//   JobLabels labels({.max_labels = 100}, [&](const std::string& label) { ... remove series ... });
//   counter_of[labels.LabelOf(request.job_id(), absl::Now())]->Increment();
//
// While there are labels left, a job gets one by its first call, and keeps it for as long as it
// goes on calling. Once all are taken, a job without one gets that of the job whose last call is
// the longest ago, if that is an hour or more; so names that are made up take no label that a job
// has, however many there are. Before that, who comes first has them.
//
// Takes O(log max_labels), and allocates for new jobs alone. Not thread-safe: whoever counts under
// a label must not do so after the label's series are removed, so holds one lock for both.

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

// Labels that are no job's own: of those without a label, and of requests without a job id. A job
// that calls itself so is counted with them.
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

  // The label to count a call of `job_id` under, at `now`; times of successive calls that go back
  // are taken as the latest so far. kOtherJobs for an id that is longer than kMaxIdBytes or no
  // plain text, too. Good until the next call.
  std::string_view LabelOf(std::string_view job_id, absl::Time now);

 private:
  struct Job {
    std::string name;
    absl::Time last;
  };

  const JobLabelOptions options_;
  const std::function<void(const std::string&)> retire_;

  // Those with labels, the longest idle first; and where each is, by its name.
  std::list<Job> jobs_;
  std::map<std::string_view, std::list<Job>::iterator> places_;
  absl::Time latest_ = absl::InfinitePast();
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
