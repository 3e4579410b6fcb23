#include "server/rendezvous/given_plans.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace batchplan {
namespace {

constexpr Instant kStart{std::chrono::hours(1)};

StepKey KeyOf(uint64_t step) { return {.job_id = "job", .step = step, .run_id = "run"}; }

std::shared_ptr<const JoinedPlan> PlanOf(uint64_t step, const std::string& incarnation = "first",
                                         int offsets = 1000) {
  auto joined = std::make_shared<JoinedPlan>();
  joined->key = KeyOf(step);
  joined->incarnation = incarnation;
  for (int i = 0; i < offsets; ++i) joined->whole.add_worker_offsets(1);
  return joined;
}

TEST(GivenPlansTest, FindsThePlanOfAnIncarnationAndOfAStepTheLastOne) {
  GivenPlans given(1 << 20, absl::Minutes(1));
  const auto first = PlanOf(1);
  given.Keep(first, kStart);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart), first);
  EXPECT_EQ(given.Find(KeyOf(1), "second", kStart), nullptr);
  EXPECT_EQ(given.Find(KeyOf(2), "first", kStart), nullptr);
  const auto second = PlanOf(1, "second");
  given.Keep(second, kStart);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart), nullptr);
  EXPECT_EQ(given.Find(KeyOf(1), "second", kStart), second);
  EXPECT_EQ(given.bytes(), second->bytes());
}

TEST(GivenPlansTest, ForgetsAPlanAfterItsLifetime) {
  GivenPlans given(1 << 20, absl::Minutes(1));
  given.Keep(PlanOf(1), kStart);
  EXPECT_NE(given.Find(KeyOf(1), "first", kStart + std::chrono::seconds(59)), nullptr);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart + std::chrono::minutes(1)), nullptr);
  const auto later = PlanOf(2);
  given.Keep(later, kStart + std::chrono::minutes(1));
  EXPECT_EQ(given.bytes(), later->bytes());
}

TEST(GivenPlansTest, TheEarliestGiveWayAndTheLargestAreNotKept) {
  const uint64_t one = PlanOf(1)->bytes();
  GivenPlans given(2 * one, absl::Minutes(1));
  for (uint64_t step : {1, 2, 3}) given.Keep(PlanOf(step), kStart);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart), nullptr);
  EXPECT_NE(given.Find(KeyOf(2), "first", kStart), nullptr);
  EXPECT_NE(given.Find(KeyOf(3), "first", kStart), nullptr);
  EXPECT_EQ(given.bytes(), 2 * one);
  given.Keep(PlanOf(3, "first", /*offsets=*/3000), kStart);
  EXPECT_EQ(given.Find(KeyOf(3), "first", kStart), nullptr);
  EXPECT_NE(given.Find(KeyOf(2), "first", kStart), nullptr);
}

}  // namespace
}  // namespace batchplan
