#include "server/rendezvous/given_plans.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

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

// How many plans this one pushes out.
size_t Keep(GivenPlans& given, std::shared_ptr<const JoinedPlan> plan, Instant now) {
  const uint64_t bytes = plan->bytes();
  return given.Keep({.joined = std::move(plan), .bytes = bytes, .expiry = {}}, now).size();
}

TEST(GivenPlansTest, FindsThePlanOfAnIncarnationAndOfAStepTheLastOne) {
  GivenPlans given(1 << 20, absl::Minutes(1));
  const auto first = PlanOf(1);
  EXPECT_EQ(Keep(given, first, kStart), 0);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart), first);
  EXPECT_EQ(given.Find(KeyOf(1), "second", kStart), nullptr);
  EXPECT_EQ(given.Find(KeyOf(2), "first", kStart), nullptr);
  const auto second = PlanOf(1, "second");
  EXPECT_EQ(Keep(given, second, kStart), 1);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart), nullptr);
  EXPECT_EQ(given.Find(KeyOf(1), "second", kStart), second);
  EXPECT_EQ(given.bytes(), second->bytes());
}

TEST(GivenPlansTest, ForgetsAPlanAfterItsLifetime) {
  GivenPlans given(1 << 20, absl::Minutes(1));
  EXPECT_EQ(Keep(given, PlanOf(1), kStart), 0);
  EXPECT_NE(given.Find(KeyOf(1), "first", kStart + std::chrono::seconds(59)), nullptr);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart + std::chrono::minutes(1)), nullptr);
  const auto later = PlanOf(2);
  EXPECT_EQ(Keep(given, later, kStart + std::chrono::minutes(1)), 1);
  EXPECT_EQ(given.bytes(), later->bytes());
}

TEST(GivenPlansTest, TheEarliestGiveWayAndTheLargestAreNotKept) {
  const uint64_t one = PlanOf(1)->bytes();
  GivenPlans given(2 * one, absl::Minutes(1));
  for (uint64_t step : {1, 2, 3}) EXPECT_EQ(Keep(given, PlanOf(step), kStart), step == 3 ? 1 : 0);
  EXPECT_EQ(given.Find(KeyOf(1), "first", kStart), nullptr);
  EXPECT_NE(given.Find(KeyOf(2), "first", kStart), nullptr);
  EXPECT_NE(given.Find(KeyOf(3), "first", kStart), nullptr);
  EXPECT_EQ(given.bytes(), 2 * one);
  EXPECT_EQ(Keep(given, PlanOf(3, "first", /*offsets=*/3000), kStart), 1);
  EXPECT_EQ(given.Find(KeyOf(3), "first", kStart), nullptr);
  EXPECT_NE(given.Find(KeyOf(2), "first", kStart), nullptr);
}

}  // namespace
}  // namespace batchplan
