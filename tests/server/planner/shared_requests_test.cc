// Random requests whose sequences share prefixes: each gets a plan that the checker accepts, or a
// refusal that names the field to change.

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::GeneratedRequest;

// Counts the plans, and those in which some pass has shared tokens.
struct Planned {
  uint64_t plans = 0;
  uint64_t sharing = 0;
};

void ExpectPlanOrRefusal(const GeneratedRequest& request, Planned& planned) {
  const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
  if (!plan.ok()) {
    EXPECT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
    return;
  }
  ++planned.plans;
  for (const PassPlan& pass : plan->passes) {
    if (pass.metrics.unique_tokens < pass.metrics.true_tokens && !pass.shared_tokens.empty()) {
      ++planned.sharing;
      return;
    }
  }
}

TEST(SharedRequestsTest, GetAPlanThatKeepsEveryPromiseOrAClearRefusal) {
  Planned planned;
  for (const uint64_t seed : testing::Seeds(1000)) {
    GeneratedRequest request =
        seed % 3 == 0 ? testing::GenerateSmallRequest(seed) : testing::GenerateRequest(seed);
    testing::AddSharedPrefixes(seed, &request);
    if (seed % 4 == 0) testing::AddSelection(seed, &request);
    if (seed % 5 == 0) request.options.mini_batches.max_delay = static_cast<uint32_t>(seed % 3);
    ExpectPlanOrRefusal(request, planned);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  std::cout << planned.plans << " plans, of which " << planned.sharing << " share\n";
  EXPECT_GT(planned.plans, testing::Cases(1000) / 2);
  EXPECT_GT(planned.sharing, planned.plans / 2);
}

TEST(SharedRequestsTest, AreKeptByEveryEffort) {
  Planned planned;
  for (const uint64_t seed : testing::Seeds(150)) {
    GeneratedRequest request = testing::GenerateRequest(seed);
    testing::AddSharedPrefixes(seed, &request);
    for (const Effort effort : {Effort::kFast, Effort::kDefault, Effort::kThorough}) {
      request.options.effort = effort;
      ExpectPlanOrRefusal(request, planned);
    }
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  EXPECT_GT(planned.sharing, planned.plans / 2);
}

TEST(SharedRequestsTest, OfPresetsAreKept) {
  Planned planned;
  for (const uint64_t seed : testing::Seeds(150)) {
    GeneratedRequest request = testing::GeneratePresetRequest("balanced", seed);
    testing::AddSharedPrefixes(seed, &request);
    ExpectPlanOrRefusal(request, planned);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  EXPECT_GT(planned.sharing, planned.plans / 2);
}

TEST(SharedRequestsTest, ArePlannedAlikeTwice) {
  for (const uint64_t seed : testing::Seeds(150)) {
    GeneratedRequest request = testing::GenerateRequest(seed);
    testing::AddSharedPrefixes(seed, &request);
    const auto first = MakePlan(request.manifest(), request.options);
    const auto second = MakePlan(request.manifest(), request.options);
    ASSERT_EQ(first.status(), second.status());
    if (!first.ok()) continue;
    ASSERT_EQ(first->fingerprint, second->fingerprint);
  }
}

}  // namespace
}  // namespace batchplan
