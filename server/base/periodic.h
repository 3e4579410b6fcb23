// Work that is done at intervals, on a thread of its own.
//
//   Periodic reload(absl::Minutes(1), [&] { server.ReloadFiles(); });
//
// The first time is one interval after the start. Destroying it ends it without waiting for the
// next time; work under way is finished first.

#ifndef BATCHPLAN_SERVER_BASE_PERIODIC_H_
#define BATCHPLAN_SERVER_BASE_PERIODIC_H_

#include <condition_variable>
#include <functional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "server/base/mutex.h"

namespace batchplan {

class Periodic {
 public:
  // `work` must not throw.
  Periodic(absl::Duration interval, std::function<void()> work)
      : thread_([this, interval, work = std::move(work)](const std::stop_token& stop) {
          MutexLock lock(mutex_);
          while (!stop.stop_requested()) {
            wake_.wait_for(lock, stop, absl::ToChronoNanoseconds(interval), [] { return false; });
            if (!stop.stop_requested()) work();
          }
        }) {}

  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  Mutex mutex_;
  std::condition_variable_any wake_;
  // Last, so that it ends before the members that it uses.
  std::jthread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_PERIODIC_H_
