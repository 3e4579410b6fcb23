#include "client/python/core/unlocked.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "client/python/core/kept_thread.h"

namespace nb = nanobind;

namespace batchplan::python {
namespace {

constexpr std::chrono::seconds kPatience(2);

// Shared by threads without Python's lock and the thread that ends Python. No thread waits for
// Python's lock while it holds the mutex.
struct Gate {
  std::mutex mutex;
  std::condition_variable left;
  // One for each thread that works without Python's lock.
  std::list<std::stop_source> at_work;
  // Threads that are done and are getting the lock back.
  int returning = 0;
  bool ends = false;
  // The thread that ends Python.
  std::thread::id ender;
  // Python is gone; threads that are still at work may not return to it.
  bool is_late = false;
};

// Never destroyed: threads may still be at work when the process ends.
Gate* gate = new Gate;

[[noreturn]] void SleepForEver() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
}

// Called by atexit, when only daemon threads remain besides the caller.
void EndPython() {
  PyThreadState* const thread = PyEval_SaveThread();
  {
    std::unique_lock lock(gate->mutex);
    gate->ends = true;
    gate->ender = std::this_thread::get_id();
    for (std::stop_source& stop : gate->at_work) stop.request_stop();
    gate->left.wait_for(lock, kPatience,
                        [] { return gate->at_work.empty() && gate->returning == 0; });
    gate->is_late = true;
    gate->left.wait(lock, [] { return gate->returning == 0; });
  }
  PyEval_RestoreThread(thread);
}

// After a fork, the child has none of its parent's other threads.
void ForgetThreads() {
  gate = new Gate;
  ForgetKeptThread();
}

}  // namespace

Unlocked::Unlocked(std::stop_source stop) {
  {
    const std::lock_guard lock(gate->mutex);
    if (!gate->ends) {
      place_ = gate->at_work.insert(gate->at_work.end(), std::move(stop));
      counted_ = true;
    } else if (gate->ender != std::this_thread::get_id()) {
      stop.request_stop();
      return;
    }
  }
  thread_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
  if (thread_ == nullptr) return;
  if (counted_) {
    std::unique_lock lock(gate->mutex);
    if (gate->is_late) {
      lock.unlock();
      SleepForEver();
    }
    gate->at_work.erase(place_);
    ++gate->returning;
  }
  PyEval_RestoreThread(thread_);
  if (counted_) {
    const std::lock_guard lock(gate->mutex);
    --gate->returning;
    gate->left.notify_all();
  }
}

bool PythonEnds() {
  const std::lock_guard lock(gate->mutex);
  return gate->ends && gate->ender != std::this_thread::get_id();
}

void WatchPythonsEnd() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&EndPython));
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("before") =
                                                          nb::cpp_function(&EndKeptThread));
  // C code forks without Python's hooks.
  if (const int error = pthread_atfork(nullptr, nullptr, &ForgetThreads); error != 0) {
    throw std::system_error(error, std::generic_category(), "pthread_atfork");
  }
}

}  // namespace batchplan::python
