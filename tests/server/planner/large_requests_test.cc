// The work for a request of up to a megabyte, whatever it asks for. It is counted in ticks, and so
// is the same everywhere. The limits are generous: of 400 such requests, the slowest needed 1.6 s
// of processor time, and 8.1 s at THOROUGH.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"
#include "tests/support/large_request.h"

namespace batchplan {
namespace {

uint64_t MostTicks(Effort effort) {
  return effort == Effort::kThorough ? 10'000'000'000 : 5'000'000'000;
}

TEST(LargeRequestsTest, TakeNoMoreTicksThanTheirEffortAllows) {
  uint64_t refused = 0;
  uint64_t most = 0;
  const uint64_t requests = testing::Cases(60);
  for (const uint64_t seed : testing::Seeds(60)) {
    const testing::GeneratedRequest request = testing::GenerateLargeRequest(seed);
    ASSERT_TRUE(request.options.Validate().ok()) << request.options.Validate();
    uint64_t ticks = 0;
    const auto plan = MakeCountedPlan(request.manifest(), request.options, {}, ticks);
    ASSERT_LE(ticks, MostTicks(request.options.effort)) << "seed " << seed << ": " << plan.status();
    most = std::max(most, ticks);
    if (plan.ok()) continue;
    ++refused;
    ASSERT_TRUE(testing::IsClearRefusal(plan.status())) << "seed " << seed << ": " << plan.status();
  }
  std::cout << refused << " of " << requests << " large requests refused; at most " << most
            << " ticks\n";
  EXPECT_LT(refused, requests * 9 / 10);
}

}  // namespace
}  // namespace batchplan
