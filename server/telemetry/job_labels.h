// A bounded set of label values for job ids, which clients make up.
//
//   JobLabels labels({.max_labels = 100}, [&](const std::string& label) { ... remove series ... });
//   counter_of[labels.LabelOf(request.job_id(), absl::Now())]->Increment();
//
// At most max_labels jobs have labels of their own at a time, first come first served; the others
// are "other" until a job has been idle for so long that its place can be given away. What is
// returned depends on the calls and their times alone. Logarithmic time. Not thread-safe: whoever
// counts under a label must not do so after the label's series are removed, so holds one lock for
// both.

#ifndef BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
#define BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"

namespace batchplan {

// Labels that are no job's own: of those without a place, and of requests without a job id. A job
// that calls itself so is counted with them.
inline constexpr std::string_view kOtherJobs = "other";
inline constexpr std::string_view kUnsetJob = "unset";
// A job with a longer id gets no place.
inline constexpr size_t kMaxJobLabelBytes = 128;

struct JobLabelOptions {
  // Besides kOtherJobs and kUnsetJob.
  size_t max_labels = 100;
  // How long a job must have been idle to lose its place to another.
  absl::Duration idle = absl::Hours(1);
};

class JobLabels {
 public:
  // `retire` is called with each label that loses its place, before that is given away.
  JobLabels(const JobLabelOptions& options, std::function<void(const std::string&)> retire)
      : options_(options), retire_(std::move(retire)) {}

  // The label to count a call of `job_id` under, at `now`; times of successive calls that go back
  // are taken as the latest so far.
  std::string_view LabelOf(std::string_view job_id, absl::Time now);

 private:
  const JobLabelOptions options_;
  const std::function<void(const std::string&)> retire_;
  // When each label was last asked for, and the labels by that; the number keeps their order where
  // times are equal.
  struct LastUse {
    absl::Time time;
    uint64_t number;
    friend bool operator<(const LastUse& a, const LastUse& b) {
      return std::pair(a.time, a.number) < std::pair(b.time, b.number);
    }
  };
  std::map<std::string, LastUse, std::less<>> last_use_;
  std::map<LastUse, std::string> by_use_;
  absl::Time latest_ = absl::InfinitePast();
  uint64_t calls_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
