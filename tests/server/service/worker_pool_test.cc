#include "server/service/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WorkerPoolTest, RunsEveryJobOnce) {
  std::atomic<int> runs = 0;
  {
    WorkerPool pool(4, 1000);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pool.TrySubmit([&runs] { ++runs; }).ok());
  }
  EXPECT_EQ(runs, 1000);
}

TEST(WorkerPoolTest, AFullQueueIsRefusedAndNamesTheLimit) {
  std::latch started(2);
  std::latch release(1);
  WorkerPool pool(2, 3);
  const auto hold = [&] {
    started.count_down();
    release.wait();
  };
  ASSERT_TRUE(pool.TrySubmit(hold).ok());
  ASSERT_TRUE(pool.TrySubmit(hold).ok());
  started.wait();
  std::atomic<int> runs = 0;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.TrySubmit([&runs] { ++runs; }).ok());
  const absl::Status refused = pool.TrySubmit([&runs] { runs += 100; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("max_queued_plans=3"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("all 2 planning threads"));
  release.count_down();
  pool.Stop();
  EXPECT_EQ(runs, 3);
}

TEST(WorkerPoolTest, WithoutAQueueAThreadStillTakesAJob) {
  std::latch release(1);
  WorkerPool pool(1, 0);
  ASSERT_TRUE(pool.TrySubmit([&release] { release.wait(); }).ok());
  EXPECT_EQ(pool.TrySubmit([] {}).code(), absl::StatusCode::kResourceExhausted);
  release.count_down();
}

TEST(WorkerPoolTest, OneThreadRunsJobsInOrder) {
  std::vector<int> order;
  WorkerPool pool(1, 10);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool.TrySubmit([&order, i] { order.push_back(i); }).ok());
  }
  pool.Stop();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(WorkerPoolTest, StopRunsWhatIsQueuedAndRefusesWhatComesLater) {
  std::latch release(1);
  std::atomic<int> runs = 0;
  WorkerPool pool(1, 10);
  ASSERT_TRUE(pool.TrySubmit([&release] { release.wait(); }).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.TrySubmit([&runs] { ++runs; }).ok());
  release.count_down();
  pool.Stop();
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(pool.TrySubmit([&runs] { ++runs; }).code(), absl::StatusCode::kUnavailable);
  pool.Stop();
  EXPECT_EQ(runs, 5);
}

}  // namespace
}  // namespace batchplan
