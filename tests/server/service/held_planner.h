// A planner that holds its calls until the test releases them. So a test knows what is going on at
// the same time, without sleeping.
//
//   HeldPlanner planner(/*hold=*/1);
//   TestServer server(options, planner.function());
//   ... start a call ...
//   planner.WaitUntilHeld();
//   ... the call is being planned ...
//   planner.Release();

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_HELD_PLANNER_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_HELD_PLANNER_H_

#include <condition_variable>
#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/planner/make_plan.h"
#include "server/service/planning/plan_batch.h"

namespace batchplan {

class HeldPlanner {
 public:
  // Holds the first `hold` calls; later ones plan at once.
  explicit HeldPlanner(int hold) : hold_(hold) {}

  // Must not outlive this object.
  PlanFunction function() {
    return [this](const Manifest& manifest, const PlanOptions& options,
                  const std::stop_token& stop) -> absl::StatusOr<Plan> {
      if (!Hold(stop)) return absl::CancelledError("held planner was stopped");
      return MakePlan(manifest, options, stop);
    };
  }

  // Returns once another call is held; every held call is counted once.
  void WaitUntilHeld() {
    MutexLock lock(mutex_);
    while (held_ == 0) changed_.wait(lock);
    --held_;
  }

  // Releases all calls, now and later.
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  // How many calls came, and how many of them ended because they were stopped.
  int calls() const {
    MutexLock lock(mutex_);
    return calls_;
  }
  int stopped() const {
    MutexLock lock(mutex_);
    return stopped_;
  }

 private:
  // False if the call was stopped while held.
  bool Hold(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    if (++calls_ > hold_) return true;
    ++held_;
    changed_.notify_all();
    const bool released = changed_.wait(lock, stop, [this] {
      mutex_.AssertHeld();
      return released_;
    });
    if (released) return true;
    ++stopped_;
    return false;
  }

  const int hold_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  int stopped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_HELD_PLANNER_H_
