// Generated requests: small ones of every kind, compared with the oracle that tries all plans;
// every preset with random topologies, budgets, mini-batches and groups; and arbitrary requests.
// Each gets a plan that keeps every promise, or an error that names the field to change.

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/satisfiable.h"

namespace batchplan {
namespace {

// Of `count` small requests, exactly those are planned that have a plan.
void PlanSmallRequests(uint64_t count, bool with_loads) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(count);
  for (const uint64_t seed : testing::Seeds(count)) {
    testing::GeneratedRequest request = testing::GenerateSmallRequest(seed);
    if (with_loads) testing::AddLoads(seed, &request);
    const bool satisfiable = testing::Satisfiable(request.manifest(), request.options);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    ASSERT_EQ(plan.ok(), satisfiable) << "seed " << seed << ": " << plan.status() << "\n"
                                      << request.Describe();
    if (!plan.ok()) {
      ++refused;
      ASSERT_TRUE(testing::IsClearRefusal(plan.status()))
          << "seed " << seed << ": " << plan.status() << "\n"
          << request.Describe();
    }
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  ::testing::Test::RecordProperty("refused", std::to_string(refused));
  std::cout << refused << " of " << requests << " small requests refused, as they must be\n";
  EXPECT_LT(refused, requests * 2 / 3);
  EXPECT_GT(refused, requests / 20);
}

TEST(SmallRequestsTest, ArePlannedExactlyIfAnyPlanExists) { PlanSmallRequests(20000, false); }

TEST(SmallRequestsTest, WithLoadsArePlannedExactlyIfAnyPlanExists) {
  PlanSmallRequests(5000, true);
}

class PresetRequestsTest : public ::testing::TestWithParam<std::string> {};

void PlanPresetRequests(const std::string& preset, uint64_t count, bool with_loads) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(count);
  for (const uint64_t seed : testing::Seeds(count)) {
    testing::GeneratedRequest request = testing::GeneratePresetRequest(preset, seed);
    if (with_loads) testing::AddLoads(seed, &request);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ++refused;
      ASSERT_TRUE(testing::IsClearRefusal(plan.status()))
          << "seed " << seed << ": " << plan.status() << "\n"
          << request.Describe();
    }
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  ::testing::Test::RecordProperty("refused", std::to_string(refused));
  std::cout << preset << ": " << refused << " of " << requests << " requests refused\n";
  EXPECT_LT(refused, requests / 2);
}

TEST_P(PresetRequestsTest, GetAPlanThatKeepsEveryPromiseOrAClearRefusal) {
  PlanPresetRequests(GetParam(), 1000, false);
}

TEST_P(PresetRequestsTest, WithLoadsGetAPlanThatKeepsEveryPromiseOrAClearRefusal) {
  PlanPresetRequests(GetParam(), 300, true);
}

std::vector<std::string> AllPresets() { return {kPresetNames.begin(), kPresetNames.end()}; }

INSTANTIATE_TEST_SUITE_P(Presets, PresetRequestsTest, ::testing::ValuesIn(AllPresets()),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

TEST(RandomRequestsTest, GetAPlanThatKeepsEveryPromiseOrAnInvalidArgument) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(5000);
  for (const uint64_t seed : testing::Seeds(5000)) {
    const testing::GeneratedRequest request = testing::GenerateRequest(seed);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ++refused;
      ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << plan.status() << "\n"
                                                                          << request.Describe();
    }
    if (HasFailure()) FAIL() << request.Describe();
  }
  RecordProperty("refused", std::to_string(refused));
  EXPECT_LT(refused, requests / 2);
}

// Combined with everything that loads can be combined with.
TEST(RandomRequestsTest, WithLoadsGetAPlanThatKeepsEveryPromiseOrAClearRefusal) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(2000);
  for (const uint64_t seed : testing::Seeds(2000)) {
    testing::GeneratedRequest request =
        seed % 12 == 5 ? testing::GenerateDynamicRequest(seed) : testing::GenerateRequest(seed);
    if (seed % 3 == 0) testing::AddSharedPrefixes(seed, &request);
    if (seed % 4 == 0) testing::AddSelection(seed, &request);
    if (seed % 4 == 1) request.options.mini_batches.max_delay = static_cast<uint32_t>(seed % 3);
    testing::AddLoads(seed, &request);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ++refused;
      ASSERT_TRUE(testing::IsClearRefusal(plan.status()))
          << "seed " << seed << ": " << plan.status() << "\n"
          << request.Describe();
    }
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  RecordProperty("refused", std::to_string(refused));
  std::cout << refused << " of " << requests << " requests with loads refused\n";
  EXPECT_LT(refused, requests / 2);
}

TEST(RandomRequestsTest, ArePlannedAlikeTwice) {
  for (const uint64_t seed : testing::Seeds(500)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    if (seed % 5 == 0) testing::AddLoads(seed, &request);
    const auto first = MakePlan(request.manifest(), request.options);
    const auto second = MakePlan(request.manifest(), request.options);
    ASSERT_EQ(first.status(), second.status());
    if (first.ok()) {
      ASSERT_EQ(first->fingerprint, second->fingerprint);
    }
  }
}

}  // namespace
}  // namespace batchplan
