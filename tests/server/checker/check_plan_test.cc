// Valid plans for rare options, each with the closest plan that breaks them. Common options are
// tested by plans of the planner (planned_plan_test.cc) and by spoilt plans (mutated_plan_test.cc,
// mutated_passes_test.cc).

#include "server/checker/check_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

HandmadePlan OneRank(std::vector<uint32_t> lengths, uint32_t budget) {
  HandmadePlan handmade;
  handmade.lengths = std::move(lengths);
  handmade.options.passes = {PackedPass("", budget)};
  return handmade;
}

TEST(CheckPlanTest, AcceptsThePackingFigure) {
  HandmadePlan handmade = OneRank({3, 6, 2, 3}, 15);
  handmade.AddPass({{{{{0, 1, 2, 3}, 14}}}}, 1);
  ExpectAccepted(handmade);
}

TEST(CheckPlanTest, AcceptsTheContextParallelExampleWithLengths4And4And8And4) {
  HandmadePlan handmade = OneRank({2, 4, 6, 1}, 20);
  handmade.options.topology.context_parallel = 2;
  handmade.AddPass({{{{{0, 1, 2, 3}, 20}}}}, 4);
  ExpectAccepted(handmade);
  EXPECT_EQ(handmade.plan.passes[0].metrics.aligned_tokens, 20);
}

TEST(CheckPlanTest, AcceptsWhatContextParallelRanksExchange) {
  for (const bool overlaps : {false, true}) {
    for (const Layout layout : {Layout::kPacked, Layout::kPadded}) {
      HandmadePlan handmade = OneRank({20, 4, 40, 40}, 200);
      handmade.options.topology.context_parallel = 2;
      handmade.options.passes[0].layout = layout;
      // Attention hides the whole exchange for 40 tokens, and a part of it for fewer.
      handmade.options.cost_model = {
          .per_token_squared = 0.1, .exchange = {{.per_token = 4}}, .exchange_overlaps = overlaps};
      const uint32_t width = layout == Layout::kPacked ? 104 : 40;
      handmade.AddPass({{{{{0, 1, 2, 3}, width}}}}, 4);
      ExpectAccepted(handmade);
      EXPECT_LT(handmade.plan.passes[0].metrics.step_efficiency, 1);
    }
  }
}

TEST(CheckPlanTest, TheLengthMultipleIsTheTopologysRule) {
  const struct {
    Topology topology;
    uint32_t asked;
    uint32_t multiple;
  } cases[] = {
      {{.tensor_parallel = 4}, 1, 1},
      {{.tensor_parallel = 4, .sequence_parallel = true}, 1, 4},
      {{.context_parallel = 3, .tensor_parallel = 4}, 1, 6},
      {{.context_parallel = 3, .tensor_parallel = 4, .sequence_parallel = true}, 1, 24},
      {{.context_parallel = 3}, 16, 48},
      {{.context_parallel = 2}, 3, 12},
      {{}, 128, 128},
      {{}, 0, 1},
  };
  for (const auto& c : cases) {
    HandmadePlan handmade = OneRank({1, 2}, 1000);
    handmade.options.topology = c.topology;
    handmade.options.passes[0].length_multiple = c.asked;
    const uint32_t aligned_two = c.multiple == 1 ? 2 : c.multiple;
    HandmadePlan wrong = handmade;
    handmade.AddPass({{{{{0, 1}, c.multiple + aligned_two}}}}, c.multiple);
    ExpectAccepted(handmade);
    wrong.AddPass({{{{{0, 1}, 2 * (c.multiple + aligned_two)}}}}, 2 * c.multiple);
    ExpectViolation(wrong, "passes[0].length_multiple is");
  }
}

TEST(CheckPlanTest, RowsArePaddedAsAsked) {
  const struct {
    RowPadding rows;
    uint32_t first;
    uint32_t second;
  } cases[] = {
      {RowPadding::kNone, 12, 4},
      {RowPadding::kLongest, 12, 12},
      {RowPadding::kCapacity, 28, 28},
      {RowPadding::kBuckets, 16, 8},
  };
  for (const auto& asked : cases) {
    for (const auto& made : cases) {
      HandmadePlan handmade = OneRank({5, 3, 2}, 30);
      handmade.options.passes[0].length_multiple = 4;
      handmade.options.passes[0].rows = asked.rows;
      if (asked.rows == RowPadding::kBuckets) handmade.options.passes[0].buckets = {8, 16, 28};
      handmade.AddPass({{{{{0, 1}, made.first}, {{2}, made.second}}}}, 4);
      if (asked.rows == made.rows) {
        ExpectAccepted(handmade);
      } else {
        ExpectViolation(handmade, "but row padding gives");
      }
    }
  }
}

TEST(CheckPlanTest, TruncatedSequencesStayInThePlanAtTheLimit) {
  HandmadePlan handmade = OneRank({9, 30, 11}, 14);
  handmade.options.overlong = OverlongPolicy::kTruncate;
  handmade.options.passes[0].length_multiple = 4;
  handmade.AddPass({{{{{0}, 12}, {{1}, 12}, {{2}, 12}}}}, 4, /*limit=*/12);
  ExpectViolation(handmade, "excluded does not list sequence 1 of 30 tokens");
  handmade.plan.excluded = {{1, 30, ExclusionReason::kTruncated}};
  ExpectAccepted(handmade);

  HandmadePlan wrong = handmade;
  wrong.plan.passes[0].sequence_lengths[1] = 11;
  ExpectViolation(wrong, "sequence_lengths[1] is 11, but sequence 1 is planned with 12 tokens");
  wrong = handmade;
  wrong.plan.excluded[0].length = 12;
  ExpectViolation(wrong, "excluded[0].length is 12, but sequence 1 has 30 tokens");
  wrong = handmade;
  wrong.plan.excluded[0].reason = ExclusionReason::kDropped;
  ExpectViolation(wrong, "excluded[0].reason is 2, but the overlong policy gives 1");
  wrong = handmade;
  wrong.plan.excluded.push_back({2, 11, ExclusionReason::kTruncated});
  ExpectViolation(wrong, "excluded[1] lists sequence 2, which the overlong policy does not touch");
  wrong = handmade;
  wrong.plan.excluded.push_back(wrong.plan.excluded[0]);
  ExpectViolation(wrong, "excluded[1].index is 1, not above 1 before it");
  wrong = handmade;
  wrong.options.overlong = OverlongPolicy::kReject;
  ExpectViolation(wrong, "manifest.lengths[1] is 30, above the length limit 12");
}

// Sequences of 9, 30 and 5 tokens in rows of at most 14, aligned to four.
HandmadePlan LongOneAlone(const HandmadePass& layout) {
  HandmadePlan handmade = OneRank({9, 30, 5}, 14);
  handmade.options.overlong = OverlongPolicy::kAlone;
  handmade.options.passes[0].length_multiple = 4;
  handmade.AddPass(layout, 4);
  handmade.plan.excluded = {{1, 30, ExclusionReason::kAlone}};
  return handmade;
}

TEST(CheckPlanTest, ASequenceAboveTheBudgetIsAloneInARowOfItsAlignedLength) {
  for (const Layout layout : {Layout::kPacked, Layout::kPadded}) {
    HandmadePlan handmade = LongOneAlone({{{{{0}, 12}, {{1}, 32}, {{2}, 8}}}});
    handmade.options.passes[0].layout = layout;
    ExpectAccepted(handmade);
  }
  for (const RowPadding rows : {RowPadding::kCapacity, RowPadding::kBuckets}) {
    HandmadePlan handmade = LongOneAlone({{{{{0}, 12}, {{1}, 32}, {{2}, 12}}}});
    handmade.options.passes[0].rows = rows;
    if (rows == RowPadding::kBuckets) handmade.options.passes[0].buckets = {12};
    ExpectAccepted(handmade);
  }
  ExpectViolation(LongOneAlone({{{{{0}, 12}, {{1}, 36}, {{2}, 8}}}}),
                  "row_widths[1] is 36, but the sequence that runs alone there has 32");
  ExpectViolation(LongOneAlone({{{{{0}, 12}, {{1, 2}, 40}}}}),
                  "row_widths[1] is 40, above max_tokens_per_microbatch 14");
  ExpectViolation(LongOneAlone({{{{{0}, 16}, {{1}, 32}, {{2}, 8}}}}),
                  "row_widths[0] is 16, above max_tokens_per_microbatch 14");
}

TEST(CheckPlanTest, ASequenceThatRunsAloneIsListed) {
  HandmadePlan handmade = LongOneAlone({{{{{0}, 12}, {{1}, 32}, {{2}, 8}}}});
  handmade.plan.excluded.clear();
  ExpectViolation(handmade, "excluded does not list sequence 1 of 30 tokens");
  handmade.plan.excluded = {{1, 30, ExclusionReason::kTruncated}};
  ExpectViolation(handmade, "excluded[0].reason is 1, but the overlong policy gives 4");
  handmade.plan.excluded = {{1, 30, ExclusionReason::kAlone}, {2, 5, ExclusionReason::kAlone}};
  ExpectViolation(handmade, "excluded[1] lists sequence 2");
}

TEST(CheckPlanTest, WhatRunsAloneInOnePassKeepsTheBudgetOfAnother) {
  HandmadePlan handmade = LongOneAlone({{{{{0}, 12}, {{1}, 32}, {{2}, 8}}}});
  handmade.options.passes.push_back(PackedPass("forward", 40));
  HandmadePlan over = handmade;
  handmade.AddPass({{{{{1, 2}, 35}, {{0}, 9}}}}, 1);
  ExpectAccepted(handmade);
  over.AddPass({{{{{0, 1, 2}, 44}}}}, 1);
  ExpectViolation(over, "passes[1].row_widths[0] is 44, above max_tokens_per_microbatch 40");
}

TEST(CheckPlanTest, NoPlanHasOtherRowsAsWideAsOneThatRunsAlone) {
  HandmadePlan handmade = LongOneAlone({{{{{0}, 12}, {{1}, 32}, {{2}, 8}}}});
  HandmadePlan grouped = handmade;
  grouped.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  ExpectViolation(grouped, "groups share micro-batches");
  HandmadePlan strided = handmade;
  strided.options.passes[0].layout = Layout::kPadded;
  strided.options.passes[0].sharding = Sharding::kStrideSorted;
  ExpectViolation(strided, "passes[0] makes rows as wide as others");
  handmade.options.passes[0].rows = RowPadding::kLongest;
  ExpectViolation(handmade, "passes[0] makes rows as wide as others");
}

TEST(CheckPlanTest, DroppedSequencesLeaveTheirMiniBatchSmaller) {
  for (const Order order : {Order::kPreserved, Order::kShuffled}) {
    HandmadePlan handmade = OneRank({9, 30, 11, 5}, 16);
    handmade.options.overlong = OverlongPolicy::kDrop;
    handmade.options.mini_batches = {.size = 2, .order = order};
    HandmadePlan kept = handmade;
    handmade.AddPass({{{{{0}, 9}}}, {{{{2, 3}, 16}}}}, 1);
    handmade.plan.excluded = {{1, 30, ExclusionReason::kDropped}};
    ExpectAccepted(handmade);
    kept.AddPass({{{{{0}, 9}, {{1}, 16}}}, {{{{2, 3}, 16}, {}}}}, 1, 16);
    kept.plan.excluded = handmade.plan.excluded;
    kept.options.allow_empty_microbatches = true;
    ExpectViolation(kept, "sequence_index[1] is 1, which the overlong policy dropped");
  }
}

TEST(CheckPlanTest, WholeGroupsAreDroppedWhereGroupsMatter) {
  HandmadePlan handmade = OneRank({9, 30, 7, 5}, 16);
  handmade.group_ids = {70, 8, 8, 70};
  handmade.options.overlong = OverlongPolicy::kDrop;
  HandmadePlan heeded = handmade;
  handmade.AddPass({{{{{0, 2}, 16}, {{3}, 5}}}}, 1);
  handmade.plan.excluded = {{1, 30, ExclusionReason::kDropped}};
  ExpectAccepted(handmade);
  handmade.options.mini_batches.groups = GroupPolicy::kSameMiniBatch;
  ExpectViolation(handmade, "excluded does not list sequence 2 of 7 tokens");

  heeded.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  heeded.AddPass({{{{{0, 3}, 14}}}}, 1);
  heeded.plan.excluded = {{1, 30, ExclusionReason::kDropped}, {2, 7, ExclusionReason::kDropped}};
  ExpectAccepted(heeded);
}

TEST(CheckPlanTest, GroupsStandWhereTheirFirstMemberDoes) {
  HandmadePlan handmade = OneRank({1, 1, 1, 1}, 2);
  handmade.group_ids = {3, 1, 3, 1};
  handmade.options.mini_batches = {.size = 2, .groups = GroupPolicy::kSameMiniBatch};
  HandmadePlan cut = handmade;
  handmade.AddPass({{{{{0, 2}, 2}}}, {{{{1, 3}, 2}}}}, 1);
  ExpectAccepted(handmade);
  cut.AddPass({{{{{0, 1}, 2}}}, {{{{2, 3}, 2}}}}, 1);
  ExpectViolation(cut, "has sequence 1 in mini-batch 0, but the manifest's order puts it into");
  cut.options.mini_batches.order = Order::kShuffled;
  ExpectViolation(cut, "has sequences 0 and 2 of group 3 apart, which must be in the same mini-ba");
}

TEST(CheckPlanTest, StrataAreTheManifestByLengthGroupsByTheirLongest) {
  HandmadePlan handmade = OneRank({9, 3, 11, 5, 5, 12}, 28);
  handmade.options.mini_batches = {.size = 3, .order = Order::kStratified};
  HandmadePlan grouped = handmade;
  HandmadePlan preserved = handmade;
  handmade.AddPass({{{{{1, 4, 3}, 13}}}, {{{{0}, 9}, {{2, 5}, 23}}}}, 1);
  ExpectAccepted(handmade);
  preserved.AddPass({{{{{0, 1, 2}, 23}}}, {{{{3, 4, 5}, 22}}}}, 1);
  ExpectViolation(preserved,
                  "sequence 0 in mini-batch 0, but the order by length puts it into mini-batch 1");
  grouped.group_ids = {1, 2, 2, 2, 1, 1};
  grouped.options.mini_batches.groups = GroupPolicy::kSameMiniBatch;
  grouped.AddPass({{{{{1, 2, 3}, 19}}}, {{{{0, 4, 5}, 26}}}}, 1);
  ExpectAccepted(grouped);
}

TEST(CheckPlanTest, AShuffleMovesSequencesButKeepsTheSize) {
  HandmadePlan handmade = OneRank({1, 2, 3, 4}, 10);
  handmade.options.mini_batches.size = 2;
  HandmadePlan uneven = handmade;
  handmade.AddPass({{{{{3, 0}, 5}}}, {{{{1, 2}, 5}}}}, 1);
  ExpectViolation(handmade,
                  "has sequence 1 in mini-batch 1, but the manifest's order puts it into "
                  "mini-batch 0");
  handmade.options.mini_batches.order = Order::kShuffled;
  ExpectAccepted(handmade);
  uneven.options.mini_batches.order = Order::kShuffled;
  uneven.AddPass({{{{{0}, 1}}}, {{{{1, 2, 3}, 9}}}}, 1);
  ExpectViolation(uneven, "has 1 sequences in mini-batch 0, but mini_batches.size is 2");
}

TEST(CheckPlanTest, MiniBatchesMayCountGroupsAndTheLastBeSmaller) {
  HandmadePlan handmade = OneRank({1, 2, 3, 4, 5}, 20);
  handmade.group_ids = {7, 7, 8, 9, 8};
  handmade.options.mini_batches = {.group_count = 2, .last = LastMiniBatch::kSmaller};
  HandmadePlan torn = handmade;
  HandmadePlan moved = handmade;
  handmade.AddPass({{{{{0, 1, 2, 4}, 11}}}, {{{{3}, 4}}}}, 1);
  ExpectAccepted(handmade);
  handmade.options.mini_batches.last = LastMiniBatch::kExact;
  ExpectViolation(handmade, "mini_batches.group_count is 2, which does not divide the 3 groups");
  torn.AddPass({{{{{0, 1, 2}, 6}}}, {{{{3, 4}, 9}}}}, 1);
  ExpectViolation(torn, "has sequence 4 in mini-batch 1, but the manifest's order puts it into");
  torn.options.mini_batches.order = Order::kShuffled;
  ExpectViolation(torn,
                  "has sequences 2 and 4 of group 8 apart, which must be in the same mini-ba");
  moved.options.mini_batches.order = Order::kShuffled;
  moved.AddPass({{{{{0, 1}, 3}}}, {{{{2, 3, 4}, 12}}}}, 1);
  ExpectViolation(moved, "has 1 groups in mini-batch 0, but mini_batches.group_count is 2");
  moved.options.mini_batches.size = 3;
  ExpectViolation(moved, "mini_batches.group_count is 2, beside size 3 and 5 group_ids");
}

TEST(CheckPlanTest, EmptyMicrobatchesStandInTheLastSlotsWhereAllowed) {
  HandmadePlan handmade = OneRank({1, 2, 3}, 4);
  handmade.options.topology.data_parallel = 2;
  handmade.options.passes[0].min_microbatches = 2;
  HandmadePlan first_slot = handmade;
  HandmadePlan with_width = handmade;
  handmade.AddPass({{{{{0, 1}, 3}, {}}, {{{2}, 3}, {}}}}, 1);
  ExpectViolation(handmade, "micro-batch 1 is empty (mini-batch 0, rank 0, slot 1)");
  handmade.options.allow_empty_microbatches = true;
  ExpectAccepted(handmade);
  first_slot.options.allow_empty_microbatches = true;
  first_slot.AddPass({{{{}, {{0, 1}, 3}}, {{{2}, 3}, {}}}}, 1);
  ExpectViolation(first_slot, "micro-batch 0 is empty, but not in the last slots of rank 0");
  with_width.options.allow_empty_microbatches = true;
  with_width.AddPass({{{{{0, 1}, 3}, {{}, 4}}, {{{2}, 3}, {}}}}, 1);
  ExpectViolation(with_width, "row_widths[1] is 4, but the micro-batch is empty");
}

TEST(CheckPlanTest, OneShuffleHoldsForAllPassesThatRespectMiniBatches) {
  const HandmadePass one_way = {{{{{0, 1}, 2}}}, {{{{2, 3}, 2}}}};
  const HandmadePass another_way = {{{{{0, 2}, 2}}}, {{{{1, 3}, 2}}}};
  const HandmadePass no_mini_batches = {{{{{0, 1, 2, 3}, 4}}}};
  for (const bool first_ignores : {false, true}) {
    HandmadePlan handmade = OneRank({1, 1, 1, 1}, 4);
    handmade.options.mini_batches = {.size = 2, .order = Order::kShuffled};
    handmade.options.passes.resize(3, handmade.options.passes[0]);
    handmade.options.passes[first_ignores ? 0 : 1].ignore_mini_batches = true;
    for (size_t number = 0; number < 3; ++number) {
      handmade.options.passes[number].name = std::string(1, static_cast<char>('a' + number));
    }
    HandmadePlan differing = handmade;
    handmade.AddPass(first_ignores ? no_mini_batches : one_way, 1);
    handmade.AddPass(first_ignores ? one_way : no_mini_batches, 1);
    handmade.AddPass(one_way, 1);
    ExpectAccepted(handmade);
    differing.AddPass(first_ignores ? no_mini_batches : one_way, 1);
    differing.AddPass(first_ignores ? one_way : no_mini_batches, 1);
    differing.AddPass(another_way, 1);
    ExpectViolation(differing, first_ignores
                                   ? "mini-batch 1, but passes[1] has it in mini-batch 0"
                                   : "mini-batch 1, but passes[0] has it in mini-batch 0");
  }
}

TEST(CheckPlanTest, NaiveTokensAreThoseOfThePaddedWidth) {
  HandmadePlan handmade = OneRank({3, 6, 2, 3}, 15);
  handmade.pad_to = 32;
  handmade.AddPass({{{{{0, 1, 2, 3}, 14}}}}, 1);
  EXPECT_EQ(handmade.plan.passes[0].metrics.naive_tokens, 4 * 32);
  ExpectAccepted(handmade);
}

}  // namespace
}  // namespace batchplan::testing
