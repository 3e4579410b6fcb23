// Random requests over everything that can be asked: a plan that keeps every promise, or an error
// that says why not.

#include <gtest/gtest.h>

#include <string>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

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

TEST(RandomRequestsTest, ArePlannedAlikeTwice) {
  for (const uint64_t seed : testing::Seeds(500)) {
    const testing::GeneratedRequest request = testing::GenerateRequest(seed);
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
