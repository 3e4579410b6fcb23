#include "server/service/admission/planning_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {
namespace {

constexpr std::chrono::minutes kForEver(1);

// Whether a stop is requested before the test has waited for ever.
bool IsStopped(const std::stop_token& stop) {
  std::promise<void> stopped;
  const std::stop_callback<std::function<void()>> on_stop(stop, [&] { stopped.set_value(); });
  return stopped.get_future().wait_for(kForEver) == std::future_status::ready;
}

TEST(PlanningLimitTest, StopsAPlanOnceItsTimeIsOver) {
  PlanningLimit limit(absl::Milliseconds(30));
  const auto begin = std::chrono::steady_clock::now();
  const PlanningLimit::Watch watch(&limit, std::stop_token());
  EXPECT_TRUE(IsStopped(watch.stop()));
  EXPECT_TRUE(watch.over());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST(PlanningLimitTest, StopsAPlanThatBeginsWhileTheEndOfAnEarlierOneIsAwaited) {
  PlanningLimit limit(absl::Milliseconds(30));
  std::optional<PlanningLimit::Watch> earlier;
  earlier.emplace(&limit, std::stop_token());
  const PlanningLimit::Watch watch(&limit, std::stop_token());
  earlier.reset();
  EXPECT_TRUE(IsStopped(watch.stop()));
  EXPECT_TRUE(watch.over());
}

TEST(PlanningLimitTest, StopsAPlanThatBeginsAfterNothingWasWatched) {
  PlanningLimit limit(absl::Milliseconds(10));
  // The end of each but the first is awaited from its beginning on, or from some time later.
  for (int i = 0; i < 20; ++i) {
    { const PlanningLimit::Watch brief(&limit, std::stop_token()); }
    const PlanningLimit::Watch watch(&limit, std::stop_token());
    EXPECT_TRUE(IsStopped(watch.stop()));
    EXPECT_TRUE(watch.over());
  }
}

TEST(PlanningLimitTest, TheCallersStopIsThePlans) {
  PlanningLimit limit(absl::Hours(1));
  std::stop_source caller;
  const PlanningLimit::Watch watch(&limit, caller.get_token());
  EXPECT_FALSE(watch.stop().stop_requested());
  caller.request_stop();
  EXPECT_TRUE(watch.stop().stop_requested());
  EXPECT_FALSE(watch.over());
}

}  // namespace
}  // namespace batchplan
