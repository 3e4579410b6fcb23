#include "server/service/admission/planning_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/service/admission/rpc_status.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A clock that the test sets.
class FakeTime {
 public:
  Clock clock() {
    return [this] { return Instant(std::chrono::nanoseconds(nanoseconds_)); };
  }
  void Pass(absl::Duration time) { nanoseconds_ += absl::ToInt64Nanoseconds(time); }

 private:
  std::atomic<int64_t> nanoseconds_ = 0;
};

// Occupies a thread of the pool until released.
class Plug {
 public:
  PlanningTask task(const std::string& job = "plug") {
    PlanningTask task;
    task.owner = "plug";
    task.job = job;
    task.run = [state = state_] {
      state->began.count_down();
      state->release.wait();
    };
    task.refuse = [](const absl::Status&) { ADD_FAILURE() << "refused"; };
    return task;
  }
  void WaitUntilBegun() { state_->began.wait(); }
  void Release() { state_->release.count_down(); }

 private:
  // Shared, because the pool may outlive the plug.
  struct State {
    std::latch began{1};
    std::latch release{1};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class PlanningPoolTest : public ::testing::Test {
 protected:
  PlanningPoolOptions OneThread(size_t max_queued_plans) {
    PlanningPoolOptions options;
    options.max_queued_plans = max_queued_plans;
    options.clock = time_.clock();
    return options;
  }

  // A task that appends `name` to a list when it runs.
  PlanningTask Task(const std::string& job, const std::string& name, uint64_t sequences = 0) {
    PlanningTask task;
    task.job = job;
    task.cost = sequences;
    task.run = [this, name] { Note(&ran_, name); };
    task.refuse = [this, name](const absl::Status& status) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_TRUE(RetryAfter(status).has_value());
      Note(&refused_, name);
    };
    return task;
  }

  void Note(std::vector<std::string>* where, const std::string& name) {
    std::lock_guard lock(mutex_);
    where->push_back(name);
  }

  std::string MetricsText() {
    return prometheus::TextSerializer().Serialize(metrics_.collectable()->Collect());
  }

  FakeTime time_;
  Metrics metrics_{"test"};
  std::mutex mutex_;
  std::vector<std::string> ran_;
  std::vector<std::string> refused_;
};

TEST_F(PlanningPoolTest, RunsEveryTaskOnce) {
  std::atomic<int> runs = 0;
  {
    PlanningPoolOptions options;
    options.threads = 4;
    options.max_queued_plans = 1000;
    PlanningPool pool(options, &metrics_);
    for (int i = 0; i < 1000; ++i) {
      PlanningTask task;
      task.job = std::to_string(i % 7);
      task.cost = static_cast<uint64_t>(i % 3) * 5000;
      task.run = [&runs] { ++runs; };
      ASSERT_TRUE(pool.Submit(std::move(task)).ok());
    }
  }
  EXPECT_EQ(runs, 1000);
  EXPECT_THAT(MetricsText(), AllOf(HasSubstr("batchplan_queue_depth 0\n"),
                                   HasSubstr("batchplan_queue_sequences 0\n"),
                                   HasSubstr("batchplan_queue_seconds_count 1000\n")));
}

TEST_F(PlanningPoolTest, AFullQueueIsRefusedAndNamesTheLimit) {
  Plug plugs[2];
  PlanningPoolOptions options = OneThread(3);
  options.threads = 2;
  PlanningPool pool(options, &metrics_);
  for (Plug& plug : plugs) {
    ASSERT_TRUE(pool.Submit(plug.task(&plug == plugs ? "one" : "two")).ok());
    plug.WaitUntilBegun();
  }
  for (const char* name : {"1", "2", "3"}) ASSERT_TRUE(pool.Submit(Task("a", name)).ok());
  const absl::Status refused = pool.Submit(Task("a", "4")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("max_queued_plans=3 requests wait for 2 planning threads"));
  EXPECT_EQ(RetryAfter(refused), absl::Milliseconds(50)) << "nothing is known of the speed yet";
  EXPECT_THAT(MetricsText(), AllOf(HasSubstr("batchplan_queue_depth 3\n"),
                                   HasSubstr("batchplan_queue_sequences 1280\n"),
                                   HasSubstr("refusals_total{reason=\"queue_full\"} 1\n")));
  for (Plug& plug : plugs) plug.Release();
  pool.Stop();
  EXPECT_EQ(ran_.size(), 3U);
  EXPECT_TRUE(refused_.empty()) << "what Submit refuses is not refused once more";
}

TEST_F(PlanningPoolTest, WithoutAQueueAThreadStillTakesATask) {
  Plug plug;
  PlanningPool pool(OneThread(0), &metrics_);
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  EXPECT_EQ(pool.Submit(Task("a", "1")).status().code(), absl::StatusCode::kResourceExhausted);
  plug.Release();
}

TEST_F(PlanningPoolTest, TooManySequencesAreRefusedUnlessTheyAreAlone) {
  Plug plug;
  PlanningPoolOptions options = OneThread(100);
  options.max_queued_sequences = 1000;
  PlanningPool pool(options, &metrics_);
  PlanningTask large = plug.task();
  large.cost = 1 << 20;
  ASSERT_TRUE(pool.Submit(std::move(large)).ok());
  const absl::Status refused = pool.Submit(Task("a", "1", 0)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("1048832 sequences"), HasSubstr("max_queued_sequences=1000")));
  plug.Release();
}

TEST_F(PlanningPoolTest, TheGreediestOwnerMakesRoomForAnother) {
  Plug plug;
  PlanningPool pool(OneThread(3), &metrics_);
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  plug.WaitUntilBegun();
  for (const char* name : {"a1", "a2", "a3"}) ASSERT_TRUE(pool.Submit(Task("a", name)).ok());
  PlanningTask b1 = Task("a", "b1");
  PlanningTask b2 = Task("a", "b2");
  b1.owner = b2.owner = "b";
  ASSERT_TRUE(pool.Submit(b1).ok());
  EXPECT_THAT(refused_, ElementsAre("a3"));
  EXPECT_FALSE(pool.Submit(Task("a", "a4")).ok());
  EXPECT_FALSE(pool.Submit(Task("fresh", "a5")).ok()) << "another name of the same owner";
  EXPECT_FALSE(pool.Submit(b2).ok()) << "b would have as many as a";
  EXPECT_THAT(MetricsText(), HasSubstr("refusals_total{reason=\"pushed_out\"} 1\n"));
  plug.Release();
  pool.Stop();
  EXPECT_THAT(ran_, ElementsAre("a1", "a2", "b1"));
}

TEST_F(PlanningPoolTest, AQuickJobIsServedBetweenTheCallsOfASlowOne) {
  Plug plug;
  PlanningPool pool(OneThread(100), &metrics_);
  // Costs do not show the times; measurements do.
  const auto take = [&](const std::string& job, const std::string& name, absl::Duration time) {
    PlanningTask task = Task(job, name, job == "quick" ? 8000 : 0);
    task.run = [this, name, time] {
      time_.Pass(time);
      Note(&ran_, name);
    };
    ASSERT_TRUE(pool.Submit(std::move(task)).ok());
  };
  take("slow", "s0", absl::Seconds(1));
  take("quick", "q0", absl::Milliseconds(1));
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  plug.WaitUntilBegun();
  for (const char* name : {"s1", "s2"}) take("slow", name, absl::Seconds(1));
  for (const char* name : {"q1", "q2", "q3"}) take("quick", name, absl::Milliseconds(1));
  plug.Release();
  pool.Stop();
  EXPECT_THAT(ran_, ElementsAre("s0", "q0", "s1", "q1", "q2", "q3", "s2"));
}

TEST_F(PlanningPoolTest, TheLastFreeThreadIsKeptForOthers) {
  Plug long_one;
  Plug also_long;
  std::array<Plug, 3> short_ones;
  PlanningPoolOptions options = OneThread(100);
  options.threads = 2;
  PlanningPool pool(options, &metrics_);
  ASSERT_TRUE(pool.Submit(long_one.task("long")).ok());
  long_one.WaitUntilBegun();
  ASSERT_TRUE(pool.Submit(also_long.task("long")).ok());
  // Each is served at once, one after the other.
  for (Plug& plug : short_ones) {
    ASSERT_TRUE(pool.Submit(plug.task(&plug == &short_ones[1] ? "shorter" : "short")).ok());
    plug.WaitUntilBegun();
    plug.Release();
  }
  long_one.Release();
  also_long.WaitUntilBegun();
  also_long.Release();
}

TEST_F(PlanningPoolTest, ATaskThatWaitsCanBeRemovedAndOneThatRunsCannot) {
  Plug plug;
  PlanningPool pool(OneThread(1), &metrics_);
  const absl::StatusOr<uint64_t> running = pool.Submit(plug.task());
  plug.WaitUntilBegun();
  const absl::StatusOr<uint64_t> waiting = pool.Submit(Task("a", "1"));
  ASSERT_TRUE(waiting.ok());
  EXPECT_FALSE(pool.Submit(Task("a", "2")).ok());
  EXPECT_FALSE(pool.Remove(*running));
  EXPECT_TRUE(pool.Remove(*waiting));
  EXPECT_FALSE(pool.Remove(*waiting));
  EXPECT_FALSE(pool.Remove(0));
  EXPECT_TRUE(pool.Submit(Task("a", "3")).ok()) << "its place is free";
  plug.Release();
  pool.Stop();
  EXPECT_THAT(ran_, ElementsAre("3"));
}

TEST_F(PlanningPoolTest, ADeadlineThatTheWorkAheadWouldOutlastByFarIsRefusedAtOnce) {
  PlanningPoolOptions options = OneThread(100);
  PlanningPool pool(options, &metrics_);
  // A task of 744 + 256 sequences needs a second: a millisecond each.
  PlanningTask slow = Task("a", "slow", 744);
  slow.run = [&] { time_.Pass(absl::Seconds(1)); };
  ASSERT_TRUE(pool.Submit(std::move(slow)).ok());
  Plug plug;
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  plug.WaitUntilBegun();
  ASSERT_TRUE(pool.Submit(Task("a", "a1", 9744)).ok());
  // Ten seconds are ahead of job a's calls, none ahead of job b's.
  PlanningTask hasty = Task("a", "a2", 1);
  hasty.time_left = absl::Milliseconds(4999);
  const absl::Status refused = pool.Submit(hasty).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("10s"), HasSubstr("4.999s")));
  EXPECT_THAT(MetricsText(), HasSubstr("refusals_total{reason=\"deadline\"} 1\n"));
  hasty.time_left = absl::Milliseconds(5001);
  EXPECT_TRUE(pool.Submit(hasty).ok());
  hasty.job = "b";
  hasty.time_left = absl::ZeroDuration();
  EXPECT_TRUE(pool.Submit(hasty).ok());
  plug.Release();
}

TEST_F(PlanningPoolTest, NobodyIsRefusedBecauseAnotherJobOrAnotherEffortWasSlow) {
  PlanningPoolOptions options = OneThread(100);
  PlanningPool pool(options, &metrics_);
  constexpr uint32_t kFast = 1;
  constexpr uint32_t kThorough = 3;
  PlanningTask known = Task("mixed", "known", 65'536);
  known.effort = kFast;
  ASSERT_TRUE(pool.Submit(std::move(known)).ok());
  // Otherwise time that passes now would count for it.
  while (!pool.idle()) std::this_thread::yield();
  for (int i = 0; i < 7; ++i) {
    for (const char* job : {"slow", "mixed"}) {
      PlanningTask slow = Task(job, "slow", 501);
      slow.effort = kThorough;
      slow.run = [&] { time_.Pass(absl::Seconds(2)); };
      ASSERT_TRUE(pool.Submit(std::move(slow)).ok());
    }
  }
  // Otherwise waiting calls would be ahead of those of their own job.
  while (!pool.idle()) std::this_thread::yield();
  Plug plug;
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  plug.WaitUntilBegun();
  for (int i = 0; i < 8; ++i) {
    for (const char* job : {"fresh", "mixed"}) {
      PlanningTask fast = Task(job, "fast", 65'536);
      fast.effort = kFast;
      fast.time_left = absl::Seconds(5);
      const absl::Status admitted = pool.Submit(std::move(fast)).status();
      EXPECT_TRUE(admitted.ok()) << admitted;
    }
  }
  plug.Release();
}

TEST_F(PlanningPoolTest, ARefusalSaysAfterHowLongToTryAgain) {
  PlanningPool pool(OneThread(1), &metrics_);
  PlanningTask slow = Task("a", "slow", 744);
  slow.run = [&] { time_.Pass(absl::Seconds(1)); };
  ASSERT_TRUE(pool.Submit(std::move(slow)).ok());
  Plug plug;
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  plug.WaitUntilBegun();
  ASSERT_TRUE(pool.Submit(Task("a", "a1", 1744)).ok());
  EXPECT_EQ(RetryAfter(pool.Submit(Task("a", "a2")).status()), absl::Seconds(2));
  plug.Release();
}

TEST_F(PlanningPoolTest, StopRunsWhatIsQueuedAndRefusesWhatComesLater) {
  Plug plug;
  PlanningPool pool(OneThread(10), &metrics_);
  ASSERT_TRUE(pool.Submit(plug.task()).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.Submit(Task("a", "queued")).ok());
  plug.Release();
  pool.Stop();
  EXPECT_EQ(ran_.size(), 5U);
  EXPECT_EQ(pool.Submit(Task("a", "late")).status().code(), absl::StatusCode::kUnavailable);
  pool.Stop();
  EXPECT_EQ(ran_.size(), 5U);
}

TEST_F(PlanningPoolTest, UnderAStormEveryTaskHasOneEnd) {
  constexpr int kSenders = 4;
  constexpr int kTasks = 2000;
  std::vector<std::atomic<int>> ends(kSenders * kTasks);
  {
    PlanningPoolOptions options;
    options.threads = 2;
    options.max_queued_plans = 5;
    options.max_queued_sequences = 20'000;
    PlanningPool pool(options, &metrics_);
    std::vector<std::jthread> senders;
    for (int sender = 0; sender < kSenders; ++sender) {
      senders.emplace_back([&, sender] {
        testing::RandomStream random(static_cast<uint64_t>(sender));
        for (int i = 0; i < kTasks; ++i) {
          std::atomic<int>& end = ends[static_cast<size_t>(sender * kTasks + i)];
          PlanningTask task;
          task.job = std::to_string(random.Between(0, 3));
          task.cost = random.Between(0, 8000);
          task.run = [&end] { ++end; };
          task.refuse = [&end](const absl::Status&) { ++end; };
          const absl::StatusOr<uint64_t> ticket = pool.Submit(std::move(task));
          if (!ticket.ok() || (random.Chance(30) && pool.Remove(*ticket))) ++end;
        }
      });
    }
  }
  for (const std::atomic<int>& end : ends) ASSERT_EQ(end, 1);
}

}  // namespace
}  // namespace batchplan
