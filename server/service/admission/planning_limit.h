// How long a plan may take: as long as its caller waits, and no longer than the server allows. What
// goes on for longer is told to stop.
//
//   PlanningLimit limit(absl::Seconds(30));
//   ...
//   absl::Status waiting = caller.StillWaiting();
//   PlanningLimit::Watch watch(&limit, caller.stop);
//   plan = MakePlan(manifest, options, watch.stop());
//   if (!plan.ok() && watch.over()) return limit.Error();
//
// One thread watches all. Thread-safe; a watch takes a short lock when it begins and when it ends.

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

// What gRPC says of a call's deadline, by a clock that people and NTP set, on the one that goes on
// evenly; both are read now, so that this is asked once, when the call comes. No deadline stays
// none.
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

  // Of one plan, from its construction to its end.
  class Watch {
   public:
    // A stop of `caller` is one of stop() too.
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

  // ResourceExhausted, never to be tried again, naming the limit.
  absl::Status Error() const;

 private:
  void Run(const std::stop_token& stop);

  const absl::Duration limit_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  // All have the same time, so that the oldest is always the next to be over.
  std::list<Watch*> watches_ ABSL_GUARDED_BY(mutex_);
  // Whether one has begun since the thread last found none to wait for.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: joined before what it uses is gone.
  std::jthread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_LIMIT_H_
