// A fixed number of threads and a bounded queue in front of them.
//
//   WorkerPool pool(/*threads=*/4, /*max_queued=*/64);
//   absl::Status status = pool.TrySubmit([] { ... });  // ResourceExhausted if there is no room
//   pool.Stop();                                       // runs what is queued, then joins
//
// Every job that was accepted runs exactly once, also when the pool stops, so that whoever waits
// for its answer gets one; a job that should not do its work any more finds that out for itself (a
// stop token). Jobs run in the order of submission and must not throw. Thread-safe.

#ifndef BATCHPLAN_SERVER_SERVICE_WORKER_POOL_H_
#define BATCHPLAN_SERVER_SERVICE_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace batchplan {

class WorkerPool {
 public:
  using Job = std::function<void()>;

  // Starts `threads` threads, at least one. `max_queued` jobs may wait while all threads are busy;
  // 0 accepts only what a thread can take at once. std::system_error if a thread can't be started.
  WorkerPool(size_t threads, size_t max_queued);

  // Stops the pool.
  ~WorkerPool();

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Takes `job` over, to be run on one of the threads. ResourceExhausted, naming the limit, if the
  // queue is full; Unavailable once the pool stops; the job is then not run. May throw
  // std::bad_alloc.
  absl::Status TrySubmit(Job job);

  // Accepts no more jobs, runs those it has and joins the threads. Not from a job. A second call
  // does nothing.
  void Stop();

 private:
  void Work(const std::stop_token& stop);

  const size_t max_queued_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  // Guarded by mutex_.
  std::deque<Job> queue_;
  size_t idle_threads_;
  bool stopped_ = false;

  // Last: destroyed, and so stopped and joined, before what the threads use, also where starting
  // one of them fails.
  std::vector<std::jthread> threads_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_WORKER_POOL_H_
