#include "client/cli/bench/load.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"

namespace batchplan::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Time = SteadyClock::time_point;

Time After(Time time, absl::Duration duration) {
  return time + absl::ToChronoNanoseconds(duration);
}

// The calls of one run.
class Run {
 public:
  Run(const AsyncCall& call, absl::Duration warm_up, absl::Duration duration, BenchResult* result)
      : call_(call),
        result_(result),
        measured_from_(After(SteadyClock::now(), warm_up)),
        end_(After(measured_from_, duration)) {}

  Time end() const { return end_; }

  // Makes a call that was due at `due`, and calls `then` after its answer.
  void Call(Time due, std::function<void()> then) {
    {
      const MutexLock lock(mutex_);
      ++outstanding_;
    }
    call_([this, due, then = std::move(then)](const absl::Status& status) {
      if (due >= measured_from_) Count(absl::FromChrono(SteadyClock::now() - due), status);
      then();
      // Counted down under the lock: once the lock is free, Wait may return and destroy the run.
      const MutexLock lock(mutex_);
      --outstanding_;
      changed_.notify_all();
    });
  }

  // Returns once less than `count` calls are under way.
  void WaitForFewerThan(size_t count) {
    MutexLock lock(mutex_);
    while (outstanding_ >= count) changed_.wait(lock);
  }

  void Finish() {
    WaitForFewerThan(1);
    result_->measured += absl::FromChrono(SteadyClock::now() - measured_from_);
  }

 private:
  void Count(absl::Duration latency, const absl::Status& status) {
    if (status.ok()) {
      result_->latencies.Record(latency);
      return;
    }
    const MutexLock lock(mutex_);
    ++result_->errors[status.code()];
    result_->messages[status.code()] = std::string(status.message());
  }

  const AsyncCall& call_;
  BenchResult* const result_;
  const Time measured_from_;
  const Time end_;
  // Also held to count an error in the result.
  Mutex mutex_;
  std::condition_variable_any changed_;
  size_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One caller of the closed loop: each of its calls begins when the last one is answered. If the
// answer comes before the call returns, the loop below makes the next call, so that calls never
// nest.
class Caller {
 public:
  explicit Caller(Run* run) : run_(run) {}

  void Start() {
    do {
      const Time now = SteadyClock::now();
      if (now >= run_->end()) return;
      state_.store(kCalling);
      run_->Call(now, [this] {
        if (state_.exchange(kAnswered) == kReturned) Start();
      });
      // If the answer has come (kAnswered), the loop goes on; otherwise the answer starts it again.
    } while (state_.exchange(kReturned) == kAnswered);
  }

 private:
  enum State { kCalling, kReturned, kAnswered };

  Run* const run_;
  std::atomic<State> state_ = kCalling;
};

}  // namespace

void RunClosedLoop(const ClosedLoop& load, const AsyncCall& call, BenchResult* result) {
  Run run(call, load.warm_up, load.duration, result);
  std::vector<std::unique_ptr<Caller>> callers;
  for (size_t i = 0; i < load.concurrency; ++i) {
    callers.push_back(std::make_unique<Caller>(&run));
    callers.back()->Start();
  }
  run.Finish();
}

void RunOpenLoop(const OpenLoop& load, const AsyncCall& call, BenchResult* result) {
  std::mt19937_64 bits(load.seed);
  const auto interval = [&] {
    // In (0, 1].
    const double uniform = static_cast<double>((bits() >> 11) + 1) * 0x1p-53;
    return absl::Seconds((load.poisson ? -std::log(uniform) : 1) / load.rate);
  };
  Run run(call, load.warm_up, load.duration, result);
  for (Time due = After(SteadyClock::now(), interval()); due < run.end();
       due = After(due, interval())) {
    std::this_thread::sleep_until(due);
    run.WaitForFewerThan(load.max_outstanding);
    run.Call(due, [] {});
  }
  run.Finish();
}

}  // namespace batchplan::cli
