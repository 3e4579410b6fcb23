#include "server/planner/plan.h"

#include <gtest/gtest.h>

namespace batchplan {
namespace {

Plan SmallPlan() {
  Plan plan;
  PassPlan& pass = plan.passes.emplace_back();
  pass.sequence_index = {1, 0};
  pass.microbatch_offsets = {0, 2};
  pass.microbatches_per_rank = {1};
  pass.row_widths = {7};
  plan.excluded = {{.index = 2, .length = 99, .reason = ExclusionReason::kDropped}};
  return plan;
}

TEST(FingerprintTest, IsSha256OfTheDocumentedBytes) {
  // Computed independently, by Python's hashlib over struct.pack of the same numbers.
  EXPECT_EQ(Fingerprint(SmallPlan()),
            "bf0142e67966a6f894d71909ac68d60a3bf4aa076fd8c186e80b1c00f79ff279");
}

TEST(FingerprintTest, DependsOnEachArrayAndOnTheExcluded) {
  const std::string original = Fingerprint(SmallPlan());
  Plan plan = SmallPlan();
  plan.passes[0].sequence_index = {0, 1};
  EXPECT_NE(Fingerprint(plan), original);
  plan = SmallPlan();
  plan.passes[0].microbatch_offsets = {0, 1};
  EXPECT_NE(Fingerprint(plan), original);
  plan = SmallPlan();
  plan.passes[0].microbatches_per_rank = {2};
  EXPECT_NE(Fingerprint(plan), original);
  plan = SmallPlan();
  plan.passes[0].row_widths = {8};
  EXPECT_NE(Fingerprint(plan), original);
  plan = SmallPlan();
  plan.excluded[0].reason = ExclusionReason::kTruncated;
  EXPECT_NE(Fingerprint(plan), original);
}

TEST(FingerprintTest, IgnoresWhatDoesNotIdentifyAPlan) {
  Plan plan = SmallPlan();
  plan.passes[0].name = "train";
  plan.passes[0].metrics.bin_utilization = 0.5;
  plan.passes[0].metrics.pipeline_bubble = 0.5;
  EXPECT_EQ(Fingerprint(plan), Fingerprint(SmallPlan()));
}

}  // namespace
}  // namespace batchplan
