#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/bench/load.h"
#include "client/cli/bench/results.h"

namespace batchplan::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Done = std::function<void(const absl::Status&)>;

// Answers each call on a thread of its own, and keeps count.
class Answerer {
 public:
  explicit Answerer(std::function<absl::Status(uint64_t number)> answer)
      : answer_(std::move(answer)), thread_([this] { Work(); }) {}

  ~Answerer() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  AsyncCall call() {
    return [this](Done done) {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(done));
      most_ = std::max(most_, ++outstanding_);
      ++calls_;
      changed_.notify_all();
    };
  }

  uint64_t calls() const { return calls_; }
  // The most calls that were under way at any time.
  size_t most() const { return most_; }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    for (uint64_t number = 0; true; ++number) {
      changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Done done = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      --outstanding_;
      lock.unlock();
      done(answer_(number));
      lock.lock();
    }
  }

  const std::function<absl::Status(uint64_t)> answer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Done> waiting_;
  size_t outstanding_ = 0;
  size_t most_ = 0;
  std::atomic<uint64_t> calls_ = 0;
  bool ended_ = false;
  std::jthread thread_;
};

TEST(ClosedLoop, KeepsAsManyCallsUnderWayAsAskedAndCountsThemAll) {
  Answerer answerer([](uint64_t) { return absl::OkStatus(); });
  BenchResult result;
  RunClosedLoop({.concurrency = 5, .warm_up = {}, .duration = absl::Milliseconds(50)},
                answerer.call(), &result);
  EXPECT_EQ(answerer.most(), 5U);
  EXPECT_EQ(result.latencies.count(), answerer.calls());
  EXPECT_GE(result.latencies.count(), 5U);
  EXPECT_GE(result.measured, absl::Milliseconds(50));
}

TEST(ClosedLoop, AnAnswerMayComeBeforeTheCallReturns) {
  std::atomic<uint64_t> calls = 0;
  BenchResult result;
  RunClosedLoop(
      {.concurrency = 2, .warm_up = {}, .duration = absl::Milliseconds(50)},
      [&calls](const Done& done) {
        ++calls;
        done(absl::OkStatus());
      },
      &result);
  // With hundreds of thousands of calls, nested ones would have used up the stack.
  EXPECT_EQ(result.latencies.count(), calls);
  EXPECT_GT(calls, 1000U);
}

TEST(ClosedLoop, WhatBeginsInTheWarmUpIsMadeButNotCounted) {
  Answerer answerer([](uint64_t) { return absl::OkStatus(); });
  BenchResult result;
  RunClosedLoop(
      {.concurrency = 1, .warm_up = absl::Milliseconds(50), .duration = absl::Milliseconds(50)},
      answerer.call(), &result);
  EXPECT_LT(result.latencies.count(), answerer.calls());
}

TEST(ClosedLoop, ErrorsAreCountedByCodeAndNotAsLatencies) {
  Answerer answerer([](uint64_t number) {
    return number % 3 == 0 ? absl::UnavailableError("gone") : absl::OkStatus();
  });
  BenchResult result;
  RunClosedLoop({.concurrency = 1, .warm_up = {}, .duration = absl::Milliseconds(50)},
                answerer.call(), &result);
  EXPECT_EQ(result.errors.size(), 1U);
  EXPECT_EQ(result.errors[absl::StatusCode::kUnavailable], (answerer.calls() + 2) / 3);
  EXPECT_EQ(result.latencies.count() + result.errors[absl::StatusCode::kUnavailable],
            answerer.calls());
  EXPECT_THAT(FormatBenchTable("what", {{.name = "server", .result = &result}}),
              AllOf(HasSubstr("p99.9"), HasSubstr("UNAVAILABLE, such as: gone\n")));
  EXPECT_THAT(FormatBenchJson({{.name = "server", .result = &result}}),
              HasSubstr("\"errors\":{\"UNAVAILABLE\":"));
}

TEST(OpenLoop, CallsLeaveOnTimeWhateverBecomesOfThem) {
  // All calls are held until the last one has come.
  std::mutex mutex;
  std::vector<Done> waiting;
  constexpr size_t kCalls = 99;  // at 1 ms, 2 ms, ... of 100 ms
  BenchResult result;
  OpenLoop load;
  load.rate = 1000;
  load.poisson = false;
  load.duration = absl::Microseconds(99'500);
  RunOpenLoop(
      load,
      [&](Done done) {
        std::lock_guard lock(mutex);
        waiting.push_back(std::move(done));
        if (waiting.size() < kCalls) return;
        for (const Done& each : waiting) each(absl::OkStatus());
      },
      &result);
  EXPECT_EQ(result.latencies.count(), kCalls);
  // The first call was due 98 ms before the last one.
  EXPECT_GE(result.latencies.max(), absl::Milliseconds(98));
  EXPECT_GE(result.latencies.Percentile(50), absl::Milliseconds(49));
}

TEST(OpenLoop, AHeldUpCallCountsFromWhenItWasDue) {
  // The first call is answered after 50 ms. With one call at a time, it delays those behind it.
  bool first = true;
  BenchResult result;
  OpenLoop load;
  load.rate = 1000;
  load.poisson = false;
  load.max_outstanding = 1;
  load.duration = absl::Microseconds(40'500);
  RunOpenLoop(
      load,
      [&first](const Done& done) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        while (first && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        first = false;
        done(absl::OkStatus());
      },
      &result);
  EXPECT_EQ(result.latencies.count(), 40U);
  // 50 ms, 49 ms, ..., not 50 ms once and then nothing.
  EXPECT_GE(result.latencies.Percentile(50), absl::Milliseconds(25));
}

TEST(OpenLoop, RandomCallsComeAtTheRateAndTheSameForOneSeed) {
  std::vector<uint64_t> counts;
  for (int i = 0; i < 2; ++i) {
    std::atomic<uint64_t> calls = 0;
    BenchResult result;
    OpenLoop load;
    load.rate = 20'000;
    load.duration = absl::Milliseconds(100);
    RunOpenLoop(
        load,
        [&calls](const Done& done) {
          ++calls;
          done(absl::OkStatus());
        },
        &result);
    counts.push_back(calls);
  }
  // 2000 expected, with a deviation of 45. At the ends of the runs a few calls may differ.
  for (const uint64_t count : counts) {
    EXPECT_GT(count, 1700U);
    EXPECT_LT(count, 2300U);
  }
}

}  // namespace
}  // namespace batchplan::cli
