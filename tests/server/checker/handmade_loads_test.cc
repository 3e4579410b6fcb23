// Plans with loads that keep every promise, each with similar plans that break one.

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

// Four sequences with patches on two ranks.
HandmadePlan FourWithPatches() {
  HandmadePlan handmade;
  handmade.lengths = {6, 4, 7, 5};
  handmade.loads = {{.name = "patches", .values = {3, 8, 5, 2}}};
  handmade.options.topology.data_parallel = 2;
  handmade.options.passes = {PackedPass("train", 20)};
  return handmade;
}

// FourWithPatches with three images, of sequences 0, 2 and 2, which are dealt.
HandmadePlan FourWithImages() {
  HandmadePlan handmade = FourWithPatches();
  handmade.loads = {
      {.name = "patches", .values = {6, 3, 2}, .has_items = true, .sequences = {0, 2, 2}}};
  handmade.options.cost_model.loads = {{.load = "patches", .per_unit = 4, .dealt = true}};
  return handmade;
}

TEST(HandmadeLoadsTest, OnlyTheMetricsTellOfALoadThatNothingAsksFor) {
  HandmadePlan handmade = FourWithPatches();
  handmade.AddPass({{{{{0, 1}, 10}}, {{{2, 3}, 12}}}}, 1);
  ExpectAccepted(handmade);
  MetricsOf(handmade).loads.clear();
  ExpectViolation(handmade, "passes[0].metrics.loads has 0 entries, but there should be 1");
}

TEST(HandmadeLoadsTest, ALimitHasRoomForRounding) {
  HandmadePlan handmade = FourWithPatches();
  OptionsOf(handmade).limits = {{"patches", 11 - 5e-9}};
  handmade.AddPass({{{{{0, 1}, 10}}, {{{2, 3}, 12}}}}, 1);
  ExpectAccepted(handmade);
  OptionsOf(handmade).limits = {{"patches", 11 - 15e-9}};
  ExpectViolation(handmade, "passes[0] micro-batch 0 has 11 of load \"patches\", above");
}

TEST(HandmadeLoadsTest, PhasesAreWaitedForInLockstepAndAddUpOtherwise) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    HandmadePlan handmade = FourWithPatches();
    handmade.options.synchronization = synchronization;
    handmade.options.cost_model = {.per_token = 1, .per_token_squared = 0};
    handmade.options.cost_model.loads = {{.load = "patches", .per_unit = 1, .separate = true}};
    handmade.AddPass({{{{{0}, 6}, {{1}, 4}}, {{{2}, 7}, {{3}, 5}}}}, 1);
    ExpectAccepted(handmade);
    const bool in_lockstep = synchronization == Synchronization::kLockstep;
    // In lockstep, phases of 5 and 8 before rows of 7 and 5; otherwise 11 and 10 on the first rank.
    EXPECT_EQ(MetricsOf(handmade).predicted_step_time, in_lockstep ? 25 : 21);
    EXPECT_EQ(MetricsOf(handmade).loads[0].separate_time, in_lockstep ? 13 : 11);
    HandmadePlan spoilt = handmade;
    MetricsOf(spoilt).predicted_step_time = in_lockstep ? 21 : 25;
    ExpectViolation(spoilt, "passes[0].metrics.predicted_step_time is");
    spoilt = handmade;
    MetricsOf(spoilt).loads[0].separate_time = in_lockstep ? 11 : 13;
    ExpectViolation(spoilt, "passes[0].metrics.loads[0].separate_time is");
  }
}

TEST(HandmadeLoadsTest, WhatIsDealtTakesAllRanksAsLong) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    HandmadePlan handmade = FourWithImages();
    handmade.options.synchronization = synchronization;
    handmade.options.cost_model.per_token = 1;
    handmade.options.cost_model.per_token_squared = 0;
    handmade.AddPass({{{{{0}, 6}, {{2}, 7}}, {{{1}, 4}, {{3}, 5}}}}, 1);
    EXPECT_EQ(PassOf(handmade).item_ranks[0].ranks, (std::vector<uint32_t>{0, 0, 1}));
    // 24 and 12 for images.
    EXPECT_EQ(MetricsOf(handmade).predicted_step_time, 36 + 13);
    EXPECT_EQ(MetricsOf(handmade).rank_cost_imbalance, 13 / 11.0);
    ExpectAccepted(handmade);
  }
}

TEST(HandmadeLoadsTest, CostsOfLoadsAlonePlanAnyModel) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.cost_model = {.per_token = 0, .per_token_squared = 0};
  handmade.options.cost_model.loads = {{.load = "patches", .per_unit = 1}};
  handmade.AddPass({{{{{0, 1}, 10}}, {{{2, 3}, 12}}}}, 1);
  EXPECT_EQ(MetricsOf(handmade).predicted_step_time, 11);
  EXPECT_EQ(MetricsOf(handmade).ideal_step_time, 9);
  ExpectAccepted(handmade);
  handmade.options.cost_model.loads[0].per_unit = 0;
  handmade.plan.cost_model_used = handmade.options.cost_model;
  ExpectViolation(handmade, "cost_model_used has only coefficients of 0");
}

TEST(HandmadeLoadsTest, WhereAllCostIsDealtRanksAreEven) {
  HandmadePlan handmade = FourWithImages();
  handmade.options.cost_model.per_token = 0;
  handmade.options.cost_model.per_token_squared = 0;
  handmade.AddPass({{{{{0}, 6}, {{2}, 7}}, {{{1}, 4}, {{3}, 5}}}}, 1);
  EXPECT_EQ(MetricsOf(handmade).rank_cost_imbalance, 1);
  ExpectAccepted(handmade);
}

TEST(HandmadeLoadsTest, LoadsOfRowsGoThroughPipelines) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.topology.pipeline_parallel = 2;
  handmade.options.cost_model.loads = {{.load = "patches", .per_unit = 100}};
  handmade.AddPass({{{{{0}, 6}, {{1}, 4}}, {{{2}, 7}, {{3}, 5}}}}, 1);
  ExpectAccepted(handmade);
  MetricsOf(handmade).predicted_step_time *= 0.9;
  ExpectViolation(handmade, "passes[0].metrics.predicted_step_time is");
}

TEST(HandmadeLoadsTest, PaddedRowsHaveLimits) {
  HandmadePlan handmade = FourWithPatches();
  OptionsOf(handmade).layout = Layout::kPadded;
  OptionsOf(handmade).limits = {{"patches", 11}};
  handmade.AddPass({{{{{0, 1}, 6}}, {{{2, 3}, 7}}}}, 1);
  ExpectAccepted(handmade);
  OptionsOf(handmade).limits = {{"patches", 10}};
  ExpectViolation(handmade, "passes[0] micro-batch 0 has 11 of load \"patches\", above");
}

TEST(HandmadeLoadsTest, EachPassHasLimitsOfItsOwn) {
  HandmadePlan handmade = FourWithPatches();
  OptionsOf(handmade).limits = {{"patches", 8}};
  handmade.options.passes.push_back(PackedPass("forward", 20));
  handmade.AddPass({{{{{0}, 6}, {{1}, 4}}, {{{2, 3}, 12}, {{}, 0}}}}, 1);
  handmade.AddPass({{{{{0, 1}, 10}}, {{{2, 3}, 12}}}}, 1);
  handmade.options.allow_empty_microbatches = true;
  ExpectAccepted(handmade);
  handmade.options.passes[1].limits = {{"patches", 10}};
  ExpectViolation(handmade, "passes[1] micro-batch 0 has 11 of load \"patches\", above");
}

TEST(HandmadeLoadsTest, MiniBatchesAreDealtOneByOne) {
  HandmadePlan handmade = FourWithImages();
  handmade.options.mini_batches.size = 2;
  handmade.AddPass({{{{{0}, 6}}, {{{1}, 4}}}, {{{{2}, 7}}, {{{3}, 5}}}}, 1);
  ExpectAccepted(handmade);
  // The sum of the most loaded ranks over that of the means: 6 and 3 of 11 on two ranks.
  EXPECT_DOUBLE_EQ(MetricsOf(handmade).loads[0].rank_imbalance, 18 / 11.0);
  PassOf(handmade).item_ranks[0].ranks = {0, 1, 0};
  ExpectViolation(handmade,
                  "passes[0].item_ranks[0].ranks[1] is 1, but of passes[0] slot 0 of mini-batch 1 "
                  "rank 0 gets the item of 3");
}

// A sequence that exceeds a limit runs alone.
TEST(HandmadeLoadsTest, AboveALimitASequenceRunsAlone) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.overlong = OverlongPolicy::kAlone;
  OptionsOf(handmade).limits = {{"patches", 7}};
  OptionsOf(handmade).rows = RowPadding::kCapacity;
  handmade.plan.excluded = {{1, 4, ExclusionReason::kAlone}};
  HandmadePlan narrow = handmade;
  // Its row is padded like others, since the budget can hold it.
  handmade.AddPass({{{{{1}, 20}}, {{{2, 3}, 20}}}}, 1);
  ExpectViolation(handmade, "passes[0].sequence_index lacks sequence 0");
  handmade.plan.passes.clear();
  handmade.AddPass({{{{{1}, 20}, {{0}, 20}}, {{{2, 3}, 20}, {{}, 0}}}}, 1);
  handmade.options.allow_empty_microbatches = true;
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  spoilt.plan.excluded.clear();
  ExpectViolation(spoilt, "excluded does not list sequence 1 of 4 tokens");
  spoilt = handmade;
  spoilt.plan.excluded[0].reason = ExclusionReason::kDropped;
  ExpectViolation(spoilt, "excluded[0].reason is");
  narrow.AddPass({{{{{1}, 4}, {{0}, 20}}, {{{2, 3}, 20}, {{}, 0}}}}, 1);
  narrow.options.allow_empty_microbatches = true;
  ExpectViolation(narrow, "passes[0].row_widths[0] is 4, but row padding gives 20");
}

TEST(HandmadeLoadsTest, AboveTheLimitOfOnePassItHasCompanyInAnother) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.overlong = OverlongPolicy::kAlone;
  handmade.options.allow_empty_microbatches = true;
  OptionsOf(handmade).limits = {{"patches", 7}};
  handmade.options.passes.push_back(PackedPass("forward", 20));
  handmade.plan.excluded = {{1, 4, ExclusionReason::kAlone}};
  handmade.AddPass({{{{{0}, 6}, {{1}, 4}}, {{{2, 3}, 12}, {{}, 0}}}}, 1);
  handmade.AddPass({{{{{0, 1}, 10}}, {{{2, 3}, 12}}}}, 1);
  ExpectAccepted(handmade);
}

TEST(HandmadeLoadsTest, AboveALimitASequenceIsDroppedWithItsGroup) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.overlong = OverlongPolicy::kDrop;
  handmade.options.topology.data_parallel = 1;
  handmade.group_ids = {1, 1, 2, 2};
  handmade.options.mini_batches.groups = GroupPolicy::kSameRank;
  OptionsOf(handmade).limits = {{"patches", 7}};
  handmade.plan.excluded = {{0, 6, ExclusionReason::kDropped}, {1, 4, ExclusionReason::kDropped}};
  handmade.AddPass({{{{{2, 3}, 12}}}}, 1);
  ExpectAccepted(handmade);
  handmade.plan.excluded.erase(handmade.plan.excluded.begin());
  ExpectViolation(handmade,
                  "excluded[0] lists sequence 1, but the overlong policy touches "
                  "sequence 0 of 6 tokens before it");
}

TEST(HandmadeLoadsTest, ItemsOfWhatIsDroppedAreNowhere) {
  HandmadePlan handmade = FourWithImages();
  handmade.options.overlong = OverlongPolicy::kDrop;
  handmade.options.topology.data_parallel = 2;
  OptionsOf(handmade).limits = {{"patches", 5}};
  handmade.plan.excluded = {{0, 6, ExclusionReason::kDropped}};
  handmade.AddPass({{{{{2}, 7}}, {{{1, 3}, 9}}}}, 1);
  EXPECT_EQ(PassOf(handmade).item_ranks[0].ranks, (std::vector<uint32_t>{0, 0, 1}));
  ExpectAccepted(handmade);
  PassOf(handmade).item_ranks[0].ranks[0] = 1;
  ExpectViolation(handmade,
                  "passes[0].item_ranks[0].ranks[0] is 1, but the sequence of the item "
                  "is not planned");
}

// The other items of its slot would be dealt together with it.
TEST(HandmadeLoadsTest, AnItemAboveALimitIsNeverAlone) {
  HandmadePlan handmade = FourWithImages();
  handmade.options.overlong = OverlongPolicy::kAlone;
  OptionsOf(handmade).limits = {{"patches", 5}};
  handmade.plan.excluded = {{0, 6, ExclusionReason::kAlone}};
  handmade.AddPass({{{{{0}, 6}, {{1}, 4}}, {{{2}, 7}, {{3}, 5}}}}, 1);
  ExpectViolation(handmade, "sequence 0 has more of a dealt load than a limit allows");
}

TEST(HandmadeLoadsTest, AloneBecauseOfALoadASequenceSharesWithNobody) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.topology.data_parallel = 1;
  handmade.options.overlong = OverlongPolicy::kAlone;
  handmade.shared_prefixes = {0, 4, 5, 3};
  handmade.shared_with = {0, 0, 0, 0};
  OptionsOf(handmade).limits = {{"patches", 7}};
  handmade.plan.excluded = {{1, 4, ExclusionReason::kAlone}};
  handmade.AddPass({{{{{1}, 4, {0}}, {{0, 3}, 8, {0, 3}}, {{2}, 7, {0}}}}}, 1);
  // 6, 2 and 2, and 4 of its own that no other sequence has.
  MetricsOf(handmade).unique_tokens = 14;
  MetricsOf(handmade).ideal_step_time += 4 + 16.0 / 24576;
  MetricsOf(handmade).step_efficiency =
      MetricsOf(handmade).ideal_step_time / MetricsOf(handmade).predicted_step_time;
  MetricsOf(handmade).lower_bound_step_time = 0;
  ExpectAccepted(handmade);
  MetricsOf(handmade).unique_tokens = 10;
  ExpectViolation(handmade, "passes[0].metrics.unique_tokens is 10, but the plan has 14");
}

TEST(HandmadeLoadsTest, OfWhatWaitsLoadsAreThoseOfWhatIsTaken) {
  HandmadePlan handmade = FourWithImages();
  handmade.options.topology.data_parallel = 2;
  handmade.options.selection = {.sequences = 2, .max_overtaking = 5};
  handmade.kinds = {1, 0, 1, 1};
  OptionsOf(handmade).kinds_per_slot = KindsPerSlot::kAlike;
  OptionsOf(handmade).limits = {{"patches", 6}};
  handmade.plan.deferred = {0, 1};
  handmade.AddPass({{{{{2}, 7}}, {{{3}, 5}}}}, 1);
  EXPECT_EQ(PassOf(handmade).item_ranks[0].ranks, (std::vector<uint32_t>{0, 0, 1}));
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  PassOf(spoilt).item_ranks[0].ranks[0] = 1;
  ExpectViolation(spoilt, "passes[0].item_ranks[0].ranks[0] is 1, but the sequence of the item");
  spoilt = handmade;
  std::swap(PassOf(spoilt).item_ranks[0].ranks[1], PassOf(spoilt).item_ranks[0].ranks[2]);
  ExpectViolation(spoilt, "passes[0].item_ranks[0].ranks[1] is 1, but of passes[0] slot 0");
  spoilt = handmade;
  MetricsOf(spoilt).loads[0].mean = 5.5;
  ExpectViolation(spoilt, "passes[0].metrics.loads[0].mean is 5.5, but the plan has 2.5");
  spoilt = handmade;
  spoilt.kinds[3] = 0;
  ExpectViolation(spoilt, "passes[0] slot 0 of mini-batch 0 has sequences of kinds 0 and 1");
  spoilt = handmade;
  OptionsOf(spoilt).limits = {{"patches", 5}};
  ExpectViolation(spoilt, "sequence 0 has more of a load than a limit allows, and is neither");
}

TEST(HandmadeLoadsTest, WhatIsTooOldMayHaveAnyLoad) {
  HandmadePlan handmade = FourWithPatches();
  handmade.ages = {0, 4, 0, 0};
  handmade.options.selection = {.sequences = 2, .max_age = 3, .max_overtaking = 5};
  OptionsOf(handmade).limits = {{"patches", 7}};
  handmade.plan.excluded = {{1, 4, ExclusionReason::kExpired}};
  handmade.plan.deferred = {3};
  handmade.AddPass({{{{{0}, 6}}, {{{2}, 7}}}}, 1);
  ExpectAccepted(handmade);
}

TEST(HandmadeLoadsTest, WhatWaitsWithTooMuchIsDropped) {
  HandmadePlan handmade = FourWithPatches();
  handmade.options.overlong = OverlongPolicy::kDrop;
  handmade.options.selection = {.sequences = 2, .max_overtaking = 5};
  OptionsOf(handmade).limits = {{"patches", 7}};
  handmade.plan.excluded = {{1, 4, ExclusionReason::kDropped}};
  handmade.plan.deferred = {3};
  handmade.AddPass({{{{{0}, 6}}, {{{2}, 7}}}}, 1);
  ExpectAccepted(handmade);
  handmade.plan.excluded.clear();
  ExpectViolation(handmade, "sequence 1 is dropped, but not in excluded");
}

TEST(HandmadeLoadsTest, EmptyMicrobatchesStandBesideTextAlone) {
  for (const KindsPerSlot asked : {KindsPerSlot::kTogether, KindsPerSlot::kAlike}) {
    HandmadePlan handmade = FourWithPatches();
    handmade.options.allow_empty_microbatches = true;
    handmade.kinds = {1, 0, 1, 1};
    OptionsOf(handmade).kinds_per_slot = asked;
    handmade.AddPass({{{{{0}, 6}, {{1}, 4}}, {{{2, 3}, 12}, {{}, 0}}}}, 1);
    ExpectAccepted(handmade);
    handmade.kinds[1] = 1;
    ExpectViolation(handmade,
                    "passes[0] slot 1 of mini-batch 0 has sequences of kind 1 and an "
                    "empty micro-batch");
  }
}

TEST(HandmadeLoadsTest, TextMayRideAlong) {
  HandmadePlan handmade = FourWithPatches();
  handmade.kinds = {0, 1, 2, 0};
  OptionsOf(handmade).kinds_per_slot = KindsPerSlot::kTogether;
  handmade.AddPass({{{{{0, 1}, 10}}, {{{2, 3}, 12}}}}, 1);
  ExpectAccepted(handmade);
  OptionsOf(handmade).kinds_per_slot = KindsPerSlot::kAlike;
  ExpectViolation(handmade, "passes[0] slot 0 of mini-batch 0 has sequences of kinds 0 and 2");
  handmade.kinds.clear();
  ExpectAccepted(handmade);
}

}  // namespace
}  // namespace batchplan::testing
