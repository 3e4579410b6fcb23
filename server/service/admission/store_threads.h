// The threads that wait for the store, so that neither gRPC's nor the planning threads do.
//
//   StoreThreads threads(/*threads=*/4, /*max_queued_calls=*/65536);
//   absl::StatusOr<uint64_t> ticket = threads.TrySubmit([] { ... });  // a call, if there is room
//   threads.TrySubmit([] { ... }, "grpo-7b");  // after those of the same turn, one at a time
//   threads.Remove(*ticket);     // true: it had not begun, and never will
//   threads.Submit([] { ... });  // what calls that were taken lead to
//   threads.Stop();              // runs what is queued, then joins
//
// A store that hangs blocks only these threads. Functions run in the order of submission, those of
// one turn one at a time; each exactly once, also when the threads stop, unless it is removed. They
// must not throw. Thread-safe: submitting and removing hold a lock briefly and are logarithmic in
// the length of the queue.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_STORE_THREADS_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_STORE_THREADS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"

namespace batchplan {

class StoreThreads {
 public:
  using Function = std::function<void()>;

  // Starts `threads` threads, at least one; std::system_error if one can't be started. At most
  // `max_queued_calls` functions wait.
  StoreThreads(size_t threads, size_t max_queued_calls);

  // Stops the threads.
  ~StoreThreads();

  StoreThreads(const StoreThreads&) = delete;
  StoreThreads& operator=(const StoreThreads&) = delete;

  // Accepts `call`, to be run on one of the threads, and returns its ticket, never 0; it may have
  // run by then. If `turn` is not empty, it is run after the earlier calls of that turn.
  // ResourceExhausted, naming the limit, if too many wait; Unavailable once the threads stop;
  // `call` is then not run. May throw std::bad_alloc.
  absl::StatusOr<uint64_t> TrySubmit(Function call, const std::string& turn = "");

  // TrySubmit without a limit, for work that calls lead to, of which there is no more than calls.
  // Dropped once the threads have stopped.
  void Submit(Function function);

  // Removes a call that has not begun: true, and it is not run. False if it has begun or ended.
  bool Remove(uint64_t ticket);

  // Runs all queued functions, and those that they submit, and joins the threads. Not from a
  // function. A second call does nothing.
  void Stop();

 private:
  struct Waiting {
    Function function;
    std::string turn;
  };

  void Work(const std::stop_token& stop);
  // Passes the turn on to its next function.
  void PassOn(const std::string& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_queued_calls_;

  Mutex mutex_;
  std::condition_variable_any wake_;
  // By ticket, and so in the order of submission: functions that may run; and by turn, functions
  // behind another of their turn.
  std::map<uint64_t, Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<uint64_t, Waiting>> behind_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Last, so that they are stopped and joined before the members that they use, also if one of them
  // fails to start.
  std::vector<std::jthread> threads_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_STORE_THREADS_H_
