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

TEST(CountRuleTest, PipelineStagesMatterOnlyWithVirtualStages) {
  PassOptions pass;
  pass.microbatch_count_multiple = 6;
  EXPECT_EQ(CountRuleOf({.pipeline_parallel = 4, .virtual_pipeline = 1}, pass).multiple, 6);
  EXPECT_EQ(CountRuleOf({.pipeline_parallel = 4, .virtual_pipeline = 2}, pass).multiple, 12);
}

}  // namespace
}  // namespace batchplan
