// The plans that a server made lately: of each job the figures of a few, and one whole plan.
//
//   RecentPlans recent({.plans_a_job = 32});
//   recent.Record(record, step, absl::Now(), [&] { return WholePlan{...}; });
//   recent.RecordStep(job_id, step, measured);
//   for (const RecentPlans::Job& job : recent.Jobs()) ...
//
// Bounded in plans, jobs and bytes, whatever clients send. Thread-safe; Record holds a lock
// briefly, and a second time if it keeps the whole plan, and waits while somebody copies the
// figures.

#ifndef BATCHPLAN_SERVER_RECENT_RECENT_PLANS_H_
#define BATCHPLAN_SERVER_RECENT_RECENT_PLANS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/base/mutex.h"
#include "server/telemetry/plan_record.h"

namespace batchplan {

struct RecentPlansOptions {
  // Of each job. At least one.
  size_t plans_a_job = 32;
  // A new job replaces the one that was planned longest ago.
  size_t max_jobs = 128;
  // The most bytes of all whole plans, the oldest of which give way; and of each, enough for some
  // 60,000 sequences: larger plans are not kept.
  size_t max_bytes = 32 << 20;
  size_t max_plan_bytes = 1 << 20;
  // The least age at which a job's whole plan is replaced, so that keeping them costs a busy server
  // next to nothing.
  absl::Duration renewal = absl::Seconds(1);
};

// The figures of a plan, all of its passes together.
struct RecentPlan {
  absl::Time time;
  uint64_t step = 0;
  std::string preset;
  uint64_t sequences = 0;
  double planning_seconds = 0;
  uint64_t microbatches = 0;
  uint64_t lower_bound_microbatches = 0;
  double bin_utilization = 0;
  // The least of all passes.
  double step_efficiency = 0;
  double padding_removed = 0;
  // Once the step was reported as a whole.
  std::optional<StepRecord> measured = std::nullopt;
};

struct WholePlan {
  std::shared_ptr<const v1::PlanBatchRequest> request;
  // The response; null if it is gone. Called when somebody looks, from any thread.
  std::function<std::shared_ptr<const v1::PlanBatchResponse>()> response;
  size_t bytes = 0;
};

class RecentPlans {
 public:
  struct Job {
    std::string id;
    // The oldest first.
    std::vector<RecentPlan> plans;
  };

  explicit RecentPlans(const RecentPlansOptions& options) : options_(options) {}

  RecentPlans(const RecentPlans&) = delete;
  RecentPlans& operator=(const RecentPlans&) = delete;

  // Notes `plan`, of `step`, made at `now`. Calls `whole`, without a lock, if the job's whole plan
  // is to be renewed. A bad_alloc leaves everything as it was, or the figures alone noted.
  void Record(const PlanRecord& plan, uint64_t step, absl::Time now,
              absl::FunctionRef<WholePlan()> whole);

  // Notes the step's times with its latest plan; does nothing if that is gone, or if another server
  // made it.
  void RecordStep(std::string_view job_id, uint64_t step, const StepRecord& measured);

  // The job planned last first.
  std::vector<Job> Jobs() const;

  std::optional<WholePlan> Whole(std::string_view job_id) const;

 private:
  struct Kept {
    std::deque<RecentPlan> plans;
    absl::Time renewed = absl::InfinitePast();
    std::optional<WholePlan> whole;

    absl::Time last() const { return plans.back().time; }
  };

  // The caller destroys what they return once mutex_ is released.
  std::optional<WholePlan> MakeRoomForJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<WholePlan> Keep(std::string_view job_id, WholePlan whole, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RecentPlansOptions options_;
  mutable Mutex mutex_;
  // Every job has a plan.
  std::map<std::string, Kept, std::less<>> jobs_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RECENT_RECENT_PLANS_H_
