// What waits with a selection, counted by reason.

#include "server/explain/deferral.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using testing::MakeCheckedPlan;
using testing::PackedOptions;

PlanOptions Selecting(const Selection& selection) {
  PlanOptions options = PackedOptions(1000, Packer::kBalanced, 2, Sharding::kBalanced);
  options.selection = selection;
  return options;
}

TEST(DeferralTest, WithoutASelectionNothingWaits) {
  const PlanOptions options = PackedOptions(1000, Packer::kBalanced, 2, Sharding::kBalanced);
  const std::vector<uint32_t> lengths = {100, 100};
  const absl::StatusOr<Plan> plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok());
  const Deferral deferral = DeferralOf({.lengths = lengths}, options, *plan);
  EXPECT_EQ(deferral.deferred, 0u);
  EXPECT_TRUE(deferral.sentences.empty());
}

TEST(DeferralTest, FirstInFirstOutLeavesWhatIsBehind) {
  const PlanOptions options = Selecting({.sequences = 2});
  const std::vector<uint32_t> lengths = {100, 50, 70};
  const absl::StatusOr<Plan> plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok());
  const Deferral deferral = DeferralOf({.lengths = lengths}, options, *plan);
  EXPECT_EQ(deferral.taken, 2u);
  EXPECT_EQ(deferral.behind, 1u);
  EXPECT_EQ(deferral.passed, 0u);
  EXPECT_EQ(deferral.sentences,
            std::vector<std::string>{
                "1 sequence waits behind the last that is taken: the step has 2 sequences."});
}

// The second is passed by the third, which is as long as the first.
TEST(DeferralTest, WhatIsPassedWaitsForTheRanks) {
  const PlanOptions options = Selecting({.sequences = 2, .max_overtaking = 1});
  const std::vector<uint32_t> lengths = {100, 50, 100, 10};
  const absl::StatusOr<Plan> plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->deferred, (std::vector<uint32_t>{1, 3}));
  const Deferral deferral = DeferralOf({.lengths = lengths}, options, *plan);
  EXPECT_EQ(deferral.behind, 1u);
  EXPECT_EQ(deferral.passed, 1u);
  EXPECT_EQ(deferral.sentences.back(),
            "1 sequence was passed by later ones, for a step whose ranks wait less; max_overtaking "
            "allows 1.");
}

TEST(DeferralTest, AgesDecide) {
  const PlanOptions options = Selecting({.sequences = 2, .max_age = 3});
  const std::vector<uint32_t> lengths = {100, 100, 100, 100};
  const std::vector<uint32_t> ages = {0, 4, 0, 3};
  const Manifest manifest = {.lengths = lengths, .ages = ages};
  const absl::StatusOr<Plan> plan = MakeCheckedPlan(manifest, options);
  ASSERT_TRUE(plan.ok());
  const Deferral deferral = DeferralOf(manifest, options, *plan);
  EXPECT_EQ(deferral.taken_for_age, 1u);
  EXPECT_EQ(deferral.expired, 1u);
  // The third waits behind the first, though the fourth is taken.
  EXPECT_EQ(deferral.behind, 1u);
  EXPECT_EQ(deferral.sentences.back(), "1 sequence is older than max_age 3, and left out.");
}

}  // namespace
}  // namespace batchplan
