// Every preset over random topologies, budgets, mini-batches and groups: a plan that keeps every
// promise, or an error that says which field is in the way.

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "server/planner/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

class PresetRequestsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PresetRequestsTest, GetAPlanThatKeepsEveryPromiseOrAClearRefusal) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(1000);
  for (const uint64_t seed : testing::Seeds(1000)) {
    const testing::GeneratedRequest request = testing::GeneratePresetRequest(GetParam(), seed);
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
  std::cout << GetParam() << ": " << refused << " of " << requests << " requests refused\n";
  EXPECT_LT(refused, requests / 2);
}

std::vector<std::string> AllPresets() { return {PresetNames().begin(), PresetNames().end()}; }

INSTANTIATE_TEST_SUITE_P(Presets, PresetRequestsTest, ::testing::ValuesIn(AllPresets()),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace batchplan
