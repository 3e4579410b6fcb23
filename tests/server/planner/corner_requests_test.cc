// Requests that only random ones came upon, in their smallest form.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using testing::MakeCheckedPlan;
using testing::PackedOptions;

TEST(CornerRequestsTest, AGroupBesideAWiderSequenceOfAnotherRankKeepsTheBudget) {
  // Sorted by tokens: 1 | 1, then the pair | 5. Two rows as wide as the 5 would be 10 tokens.
  const std::vector<uint32_t> lengths = {2, 2, 1, 1, 5};
  const std::vector<uint32_t> group_ids = {1, 1, 2, 3, 4};
  PlanOptions options = PackedOptions(9, Packer::kBalanced, 2, Sharding::kStrideSorted);
  options.passes[0].layout = Layout::kPadded;
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].microbatches_per_rank, ::testing::ElementsAre(2));
}

}  // namespace
}  // namespace batchplan
