#include "server/planner/balance/lockstep_findings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stop_token>

namespace batchplan {
namespace {

// What takes 100 ticks, and is better where 1,000 more are afforded, of which it uses 10.
uint64_t FindWith(const Allowance& allowance) {
  allowance.Spend(100);
  if (!allowance.Affords(1000)) return 1;
  allowance.Spend(10);
  return 2;
}

uint64_t Get(Finding<uint64_t>& finding, uint64_t ticks) {
  const Allowance allowance(ticks, std::stop_token());
  return finding.Get(allowance, [&] { return FindWith(allowance); });
}

TEST(FindingTest, IsWhatAnAllowanceWouldFindByItself) {
  Finding<uint64_t> finding;
  EXPECT_EQ(Get(finding, 500), 1);
  EXPECT_EQ(Get(finding, 5000), 2);
  // It used 110, but this is less than it asked for.
  EXPECT_EQ(Get(finding, 500), 1);
}

TEST(FindingTest, IsKeptAndItsTicksAreSpent) {
  Finding<uint64_t> finding;
  EXPECT_EQ(Get(finding, 5000), 2);
  const Allowance allowance(5000, std::stop_token());
  EXPECT_EQ(finding.Get(allowance, [] { return uint64_t{3}; }), 2);
  EXPECT_EQ(allowance.used(), 110);
}

}  // namespace
}  // namespace batchplan
