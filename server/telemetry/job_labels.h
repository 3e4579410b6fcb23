// A bounded set of label values for job ids, which clients make up: the busiest jobs have labels of
// their own, the others share one.
//
//   JobLabels labels({.max_labels = 100}, [&](const std::string& label) { ... remove series ... });
//   counter_of[labels.LabelOf(request.job_id(), absl::Now())]->Increment();
//
// A job is as busy as it has calls, each of which counts half as much every half_life (G. Cormode
// et al.: Forward Decay, ICDE 2009). While there are labels left, a job gets one by its first call.
// Then it takes the place of a job that has been idle for an hour; or of the least busy job, once
// it is clearly busier: kClearlyBusier times, and by kClearlyMore calls besides, so that labels
// don't change hands between jobs that are about as busy.
//
// Of the jobs without labels max_watched are counted, by the space-saving algorithm (A. Metwally et
// al.: Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005): one that
// is not among them takes the place of the least busy one, and counts for a label only with the
// calls that are surely its own. So names that come once take nobody's label, however many there
// are, and a job with more than 1 in max_watched of the calls without labels is never overlooked.
//
// What is returned depends on the calls and their times alone. Takes logarithmic time, and
// allocates for new jobs alone. Not thread-safe: whoever counts under a label must not do so after
// the label's series are removed, so holds one lock for both.

#ifndef BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
#define BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace batchplan {

// Labels that are no job's own: of those without a label, and of requests without a job id. A job
// that calls itself so is counted with them.
inline constexpr std::string_view kOtherJobs = "other";
inline constexpr std::string_view kUnsetJob = "unset";
// A job with a longer id gets no label.
inline constexpr size_t kMaxJobLabelBytes = 128;

struct JobLabelOptions {
  // Besides kOtherJobs and kUnsetJob.
  size_t max_labels = 100;
  // At least one, unless there are no labels.
  size_t max_watched = 1024;
  // Positive.
  absl::Duration half_life = absl::Minutes(10);
  // How long a job must have been idle to lose its label to any other.
  absl::Duration idle = absl::Hours(1);
};

class JobLabels {
 public:
  // What it takes to get another job's label; see above.
  static constexpr double kClearlyBusier = 2;
  static constexpr double kClearlyMore = 4;

  // `retire` is called with each label that is taken from its job, before another gets it.
  JobLabels(const JobLabelOptions& options, std::function<void(const std::string&)> retire)
      : options_(options), retire_(std::move(retire)) {}

  JobLabels(const JobLabels&) = delete;
  JobLabels& operator=(const JobLabels&) = delete;

  // The label to count a call of `job_id` under, at `now`; times of successive calls that go back
  // are taken as the latest so far. Good until the next call.
  std::string_view LabelOf(std::string_view job_id, absl::Time now);

 private:
  struct Job {
    std::string name;
    // Decayed to epoch_, so that they compare at any time: a call now counts Weight().
    double calls = 0;
    // Of these, what may have been other jobs' calls.
    double inherited = 0;
    // Of the last call, to tell jobs apart that are as busy: the one idle for longer is less busy.
    uint64_t number = 0;
    absl::Time last;
    // In uses_, if it has a label.
    std::optional<std::list<Job*>::iterator> use = std::nullopt;
  };
  struct LessBusy {
    bool operator()(const Job* a, const Job* b) const {
      return a->calls != b->calls ? a->calls < b->calls : a->number < b->number;
    }
  };
  using ByBusyness = std::set<Job*, LessBusy>;

  // What a call at latest_ counts for.
  double Weight();
  // Counts a call of a job that is known.
  void Count(Job& job, double weight);
  // A job that was not known, with its first call counted.
  Job& Watch(std::string_view name, double weight);
  // Whose label `job` may take; null: nobody's. While all are taken.
  Job* GivesWayTo(const Job& job, double weight) const;
  void Label(Job& job);
  void TakeLabel(Job& job);

  const JobLabelOptions options_;
  const std::function<void(const std::string&)> retire_;

  // By name, and the same jobs by how busy they are.
  std::map<std::string_view, std::unique_ptr<Job>> jobs_;
  ByBusyness labelled_;
  ByBusyness watched_;
  // Those with labels, the longest idle first.
  std::list<Job*> uses_;
  absl::Time latest_ = absl::InfinitePast();
  absl::Time epoch_ = absl::InfinitePast();
  uint64_t calls_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_JOB_LABELS_H_
