// Random requests over everything that can be asked: a plan that keeps every promise, or an error
// that says why not.

#include <gtest/gtest.h>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

TEST(RandomRequestsTest, GetAPlanThatKeepsEveryPromiseOrAnInvalidArgument) {
  int refused = 0;
  constexpr int kRequests = 10000;
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    const testing::GeneratedRequest request = testing::GenerateRequest(seed);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ++refused;
      ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << plan.status() << "\n"
                                                                          << request.Describe();
    }
    if (HasFailure()) FAIL() << request.Describe();
  }
  RecordProperty("refused", refused);
  EXPECT_LT(refused, kRequests / 2);
}

TEST(RandomRequestsTest, ArePlannedAlikeTwice) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
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
