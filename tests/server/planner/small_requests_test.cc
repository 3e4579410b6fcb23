// Small requests of every kind, held against the oracle that tries all plans: what can be planned
// is, and nothing else is refused.

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/satisfiable.h"

namespace batchplan {
namespace {

TEST(SmallRequestsTest, ArePlannedExactlyIfAnyPlanExists) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(20000);
  for (const uint64_t seed : testing::Seeds(20000)) {
    const testing::GeneratedRequest request = testing::GenerateSmallRequest(seed);
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
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  RecordProperty("refused", std::to_string(refused));
  std::cout << refused << " of " << requests << " small requests refused, as they must be\n";
  EXPECT_LT(refused, requests * 2 / 3);
  EXPECT_GT(refused, requests / 20);
}

}  // namespace
}  // namespace batchplan
