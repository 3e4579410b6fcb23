// The planning threads, and admission to them: a fair and bounded queue (fair_queue.h) in front of
// a fixed number of threads.
//
//   PlanningPool pool({.threads = 4, .max_queued_plans = 64}, &metrics);
//   absl::StatusOr<uint64_t> ticket =
//       pool.Submit({.owner = "token:1f", .job = "grpo-7b", .cost = 4096, ...});
//   pool.Remove(*ticket);   // true: it had not begun, and never will
//   pool.Stop();            // runs what is queued, then joins
//
// Every task that Submit accepted has exactly one end: it is run, removed, or refused because
// another job's task has the better claim to its place. Nobody ever waits for room. A refusal is
// ResourceExhausted with the time after which to try again (RetryAfter in rpc_status.h), estimated
// from the pool's speed; or DeadlineExceeded if the work ahead alone takes kDeadlineMargin times
// longer than the caller can wait, by the times of tasks of the same job and effort. A job of which
// nothing is known is not refused by an estimate.
//
// Tasks must not throw; what they hold is destroyed outside the lock. Thread-safe: Submit, Remove
// and the ends of tasks hold one lock briefly.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_POOL_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/service/admission/fair_queue.h"
#include "server/service/admission/work_rate.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

struct PlanningPoolOptions {
  // At least one.
  size_t threads = 1;
  // Tasks that may wait while all threads are busy; 0 accepts only tasks that a thread can run at
  // once.
  size_t max_queued_plans = 64;
  // Cost of all tasks, waiting or running, each counted as kTaskCost more. A task that finds no
  // other is accepted at any cost: it could never be served otherwise.
  uint64_t max_queued_sequences = 16 << 20;
  // By which the pool measures its speed.
  Clock clock = [] { return std::chrono::steady_clock::now(); };
};

struct PlanningTask {
  // Whose turn it uses. The empty names are an owner and a job like any other.
  std::string owner;
  std::string job;
  // As on the wire: tasks of one effort are expected to be alike in time over cost.
  uint32_t effort = 0;
  // Sequences, each as often as it is planned, and other work (CostOf in request_limits.h).
  uint64_t cost = 0;
  // How long its caller waits.
  absl::Duration time_left = absl::InfiniteDuration();
  // Called on a planning thread.
  std::function<void()> run;
  // Called within another task's Submit, with the status to answer.
  std::function<void(const absl::Status&)> refuse;
};

class PlanningPool {
 public:
  // What each task costs on top of its own cost.
  static constexpr uint64_t kTaskCost = 256;
  // By which factor estimates may be wrong.
  static constexpr double kDeadlineMargin = 2;

  // Starts the threads. std::system_error if one can't be started.
  PlanningPool(PlanningPoolOptions options, Metrics* metrics);

  // Stops the pool.
  ~PlanningPool();

  PlanningPool(const PlanningPool&) = delete;
  PlanningPool& operator=(const PlanningPool&) = delete;

  // Accepts `task` and returns its ticket, never 0; it may have ended by then. If it is not
  // accepted, an error, see above, or Unavailable once the pool stops; neither function is then
  // called. May throw std::bad_alloc, which leaves everything as it was.
  absl::StatusOr<uint64_t> Submit(PlanningTask task);

  // Removes a task that has not begun: true, and neither of its functions is called. False if it
  // has begun or ended.
  bool Remove(uint64_t ticket);

  // Whether no task waits or runs.
  bool idle();

  // Accepts no more tasks, runs the waiting ones and joins the threads. Not from a task. A second
  // call does nothing.
  void Stop();

 private:
  struct Waiting {
    PlanningTask task;
    WorkRate::Kind kind;
    uint64_t cost = 0;
    Instant since;
  };

  void Work();
  absl::Status Full(const FairQueue::Bounds& bounds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time of all threads together for this much time of one, and for all waiting tasks.
  absl::Duration WallTime(absl::Duration thread_time) const;
  absl::Duration RetryDelay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs a popped task.
  absl::Duration Run(Waiting taken);
  void ShowQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PlanningPoolOptions options_;
  Metrics* const metrics_;

  Mutex mutex_;
  std::condition_variable_any wake_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  WorkRate rate_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t idle_threads_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_PLANNING_POOL_H_
