// The longest that a plan may take: what goes on for longer is told to stop.
//
//   PlanningLimit limit(absl::Seconds(30));
//   ...
//   PlanningLimit::Watch watch(&limit, caller.stop);
//   plan = MakePlan(manifest, options, watch.stop());
//   if (!plan.ok() && watch.over()) return limit.Error();
//
// One thread watches all. Thread-safe; a watch takes a short lock when it begins and when it ends.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_LIMIT_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_LIMIT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

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
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_. All have the same time, so that the oldest is always the next to be over.
  std::list<Watch*> watches_;
  // Whether one has begun since the thread last found none to wait for.
  bool begun_ = false;
  // Last: joined before what it uses is gone.
  std::jthread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_LIMIT_H_
