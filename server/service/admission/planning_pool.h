// The planning threads, and admission to them: a fair and bounded queue (fair_queue.h) in front of
// a fixed number of threads.
//
//   PlanningPool pool({.threads = 4, .max_queued_plans = 64}, &metrics);
//   absl::StatusOr<uint64_t> ticket =
//       pool.Submit({.owner = "token:1f", .job = "grpo-7b", .cost = 4096, ...});
//   pool.Remove(*ticket);   // true: it had not begun, and never will
//   pool.Stop();            // runs what is queued, then joins
//
// Every task that Submit accepted has exactly one end: it is run; or it is removed; or it is
// refused, because another job's task has the better claim to its place. Nobody ever waits for
// room. What is refused is ResourceExhausted with the time after which to try again (RetryAfter in
// rpc_status.h), estimated from how fast the pool has been working; DeadlineExceeded if the work
// ahead alone takes kDeadlineMargin times longer than the caller can wait, by what tasks of the
// same job and effort took. Of a job of which nothing is known none is refused by an estimate.
//
// Tasks must not throw; what they hold is destroyed outside the lock. Thread-safe: Submit, Remove
// and the ends of tasks take one short lock.

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
  // Tasks that may wait while all threads are busy; 0 accepts only what a thread can take at once.
  size_t max_queued_plans = 64;
  // Cost of all tasks, waiting or running, each task counted as kTaskCost more. One that finds
  // nobody else here is accepted at any cost: it could never be served otherwise.
  uint64_t max_queued_sequences = 16 << 20;
  // What the pool measures its speed by.
  Clock clock = [] { return std::chrono::steady_clock::now(); };
};

struct PlanningTask {
  // Whose turn it takes. The empty ones are an owner and a job like any other.
  std::string owner;
  std::string job;
  // As on the wire: tasks of one effort are expected to take alike for their cost.
  uint32_t effort = 0;
  // Sequences, each as often as it is planned, and what else is planned.
  uint64_t cost = 0;
  // How long its caller waits.
  absl::Duration time_left = absl::InfiniteDuration();
  // On a planning thread.
  std::function<void()> run;
  // Within somebody else's Submit, with what to answer.
  std::function<void(const absl::Status&)> refuse;
};

class PlanningPool {
 public:
  // What a task costs beyond its own.
  static constexpr uint64_t kTaskCost = 256;
  // Estimates may be so far out.
  static constexpr double kDeadlineMargin = 2;

  // Starts the threads. std::system_error if one can't be started.
  PlanningPool(PlanningPoolOptions options, Metrics* metrics);

  // Stops the pool.
  ~PlanningPool();

  PlanningPool(const PlanningPool&) = delete;
  PlanningPool& operator=(const PlanningPool&) = delete;

  // Takes `task` over and returns its ticket, never 0; it may have ended by then. An error, see
  // above, or Unavailable once the pool stops, if it was not accepted; neither function is then
  // called. May throw std::bad_alloc, which leaves everything as it was.
  absl::StatusOr<uint64_t> Submit(PlanningTask task);

  // Takes a task that has not begun out of the queue: true, and neither of its functions is called.
  // False if it has begun or ended.
  bool Remove(uint64_t ticket);

  // No task waits or is run.
  bool idle();

  // Accepts no more tasks, runs those it has and joins the threads. Not from a task. A second call
  // does nothing.
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
  // What the threads together need for what takes one thread so long, and for all that waits.
  absl::Duration WallTime(absl::Duration thread_time) const;
  absl::Duration RetryDelay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs a task that was taken.
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
