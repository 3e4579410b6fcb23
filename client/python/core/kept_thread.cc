#include "client/python/core/kept_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace batchplan::python {
namespace {

using SharedPlan = std::shared_ptr<Planned>;

struct Task {
  std::function<SharedPlan()> make;
  std::promise<SharedPlan> plan;
};

struct Worker {
  std::mutex mutex;
  std::condition_variable wakes;
  std::optional<Task> task;
  bool ends = false;
  std::thread thread;
#ifdef __linux__
  // That it was told to run on.
  cpu_set_t cores{};
#endif
};

struct Keeper {
  std::mutex mutex;
  // Kept, and without a task.
  std::shared_ptr<Worker> idle;
};

// Never destroyed: a kept thread waits until the process ends.
Keeper* keeper = new Keeper;

// All signals are blocked in the caller, and in threads that it starts, as long as this lives.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

// Has a kept thread run where the caller may: threads begin on the cores of who starts them, and a
// process that is bound later, or other threads of it, may have others.
void RunOnCallersCores([[maybe_unused]] Worker& worker) {
#ifdef __linux__
  cpu_set_t cores;
  if (pthread_getaffinity_np(pthread_self(), sizeof cores, &cores) != 0) return;
  if (CPU_EQUAL(&cores, &worker.cores) != 0) return;
  pthread_setaffinity_np(worker.thread.native_handle(), sizeof cores, &cores);
  worker.cores = cores;
#endif
}

// False where another one is kept.
bool Keep(const std::shared_ptr<Worker>& worker) {
  const std::lock_guard lock(keeper->mutex);
  if (keeper->idle) return false;
  keeper->idle = worker;
  return true;
}

// Until it is told to end, or done while another one is kept.
void Work(const std::shared_ptr<Worker>& worker) {
  for (bool is_kept = true; is_kept;) {
    std::optional<Task> task;
    {
      std::unique_lock lock(worker->mutex);
      worker->wakes.wait(lock, [&] { return worker->task || worker->ends; });
      if (worker->ends) return;
      task.swap(worker->task);
    }
    SharedPlan plan;
    std::exception_ptr error;
    try {
      plan = task->make();
    } catch (...) {
      error = std::current_exception();
    }
    // Before the caller knows, who may have the next one at once.
    is_kept = Keep(worker);
    if (!is_kept) worker->thread.detach();
    if (error) {
      task->plan.set_exception(std::move(error));
    } else {
      task->plan.set_value(std::move(plan));
    }
  }
}

std::shared_ptr<Worker> TakeIdle() {
  const std::lock_guard lock(keeper->mutex);
  return std::exchange(keeper->idle, nullptr);
}

}  // namespace

std::future<SharedPlan> PlanInThread(std::function<SharedPlan()> make) {
  Task task = {.make = std::move(make), .plan = {}};
  std::future<SharedPlan> plan = task.plan.get_future();
  std::shared_ptr<Worker> worker = TakeIdle();
  const bool is_kept = worker != nullptr;
  if (!is_kept) worker = std::make_shared<Worker>();
  const std::lock_guard lock(worker->mutex);
  worker->task = std::move(task);
  if (is_kept) {
    RunOnCallersCores(*worker);
    worker->wakes.notify_one();
  } else {
    const WithoutSignals without_signals;
    worker->thread = std::thread(Work, worker);
  }
  return plan;
}

void EndKeptThread() {
  const std::shared_ptr<Worker> worker = TakeIdle();
  if (!worker) return;
  {
    const std::lock_guard lock(worker->mutex);
    worker->ends = true;
    worker->wakes.notify_one();
  }
  worker->thread.join();
}

void ForgetKeptThread() { keeper = new Keeper; }

}  // namespace batchplan::python
