#include "server/planner/count_rule.h"

#include <gtest/gtest.h>

namespace batchplan {
namespace {

TEST(CountRuleTest, RoundsUpToMinimumAndMultiple) {
  EXPECT_EQ((CountRule{.minimum = 1, .multiple = 1}).RoundUp(5), 5);
  EXPECT_EQ((CountRule{.minimum = 7, .multiple = 4}).RoundUp(5), 8);
  EXPECT_EQ((CountRule{.minimum = 1, .multiple = 4}).RoundUp(9), 12);
}

TEST(CountRuleTest, RoundsDownToAnAllowedCountOrNone) {
  EXPECT_EQ((CountRule{.minimum = 3, .multiple = 2}).RoundDown(7), 6);
  EXPECT_EQ((CountRule{.minimum = 3, .multiple = 2}).RoundDown(3), 0);
}

TEST(CountRuleTest, TheLeastNumberThatNeedsACountIsTheFirstRoundedUpToIt) {
  for (uint64_t minimum = 1; minimum <= 7; ++minimum) {
    for (uint64_t multiple = 1; multiple <= 5; ++multiple) {
      const CountRule rule = {.minimum = minimum, .multiple = multiple};
      for (uint64_t count = rule.RoundUp(0); count <= 30; count += multiple) {
        const uint64_t least = rule.LeastThatNeeds(count);
        EXPECT_EQ(rule.RoundUp(least), count);
        if (least > 0) {
          EXPECT_LT(rule.RoundUp(least - 1), count);
        }
      }
    }
  }
}

TEST(CountRuleTest, PipelineStagesMatterOnlyWithVirtualStages) {
  PassOptions pass;
  pass.microbatch_count_multiple = 6;
  EXPECT_EQ(CountRuleOf({.pipeline_parallel = 4, .virtual_pipeline = 1}, pass).multiple, 6);
  EXPECT_EQ(CountRuleOf({.pipeline_parallel = 4, .virtual_pipeline = 2}, pass).multiple, 12);
}

}  // namespace
}  // namespace batchplan
