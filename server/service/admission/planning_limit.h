// How long planning may take: as long as its caller waits, and at most as long as the server
// allows. Longer planning is told to stop.
//
//   PlanningLimit limit(absl::Seconds(30));
//   ...
//   absl::Status waiting = caller.StillWaiting();
//   PlanningLimit::Watch watch(&limit, caller.stop);
//   plan = MakePlan(manifest, options, watch.stop());
//   if (!plan.ok() && watch.over()) return limit.Error();
//
// One thread watches all plans. Thread-safe; a watch holds a lock briefly when it begins and when
// it ends.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_LIMIT_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_LIMIT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <stop_token>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace batchplan {

// Converts a call's deadline from the system clock, which people and NTP set, to the steady clock.
// Both are read now, so call it once, when the call arrives. No deadline stays none.
Instant SteadyDeadline(std::chrono::system_clock::time_point deadline);

// How long the caller of an RPC waits for its answer.
struct Caller {
  // Instant::max(): for ever.
  Instant deadline = Instant::max();
  // Stop is requested when the call is cancelled.
  std::stop_token stop;

  // OK while the caller waits; DeadlineExceeded or Cancelled once it doesn't.
  absl::Status StillWaiting() const;
};

class PlanningLimit {
 public:
  // Outlives its watches.
  explicit PlanningLimit(absl::Duration limit);

  PlanningLimit(const PlanningLimit&) = delete;
  PlanningLimit& operator=(const PlanningLimit&) = delete;

  // Watches one plan, from its construction to its end.
  class Watch {
   public:
    // A stop of `caller` also requests one of stop().
    Watch(PlanningLimit* limit, const std::stop_token& caller);
    ~Watch();

    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Stop is requested once the time is over.
    std::stop_token stop() const { return stop_.get_token(); }
    bool over() const { return over_.load(); }

   private:
    friend class PlanningLimit;
    struct Stop {
      std::stop_source* source;
      void operator()() const { source->request_stop(); }
    };

    PlanningLimit* const limit_;
    const std::chrono::steady_clock::time_point end_;
    std::stop_source stop_;
    std::atomic<bool> over_ = false;
    std::list<Watch*>::iterator place_;
    std::stop_callback<Stop> on_caller_;
  };

  // ResourceExhausted, naming the limit, with the advice never to try again.
  absl::Status Error() const;

 private:
  void Run(const std::stop_token& stop);

  const absl::Duration limit_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  // All have the same limit, so the oldest is always the next to be over.
  std::list<Watch*> watches_ ABSL_GUARDED_BY(mutex_);
  // Whether a watch has begun since the thread last found none to wait for.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  // Last, so that it ends before the members that it uses.
  std::jthread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_LIMIT_H_
