// Valid plans, one for each thing that may be asked, and the nearest plan that breaks it.

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

TEST(CheckPlanTest, AcceptsTwoMiniBatchesOnTwoRanks) { ExpectAccepted(TwoMiniBatches()); }

TEST(CheckPlanTest, AcceptsEitherSynchronizationWithAnyCostModel) {
  for (const auto synchronization : {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    HandmadePlan handmade = OneRank({5, 3, 4, 1}, 8);
    handmade.options.topology.data_parallel = 2;
    handmade.options.synchronization = synchronization;
    handmade.options.cost_model = {0.5, 0.25, 3};
    handmade.AddPass({{{{{0}, 5}, {{3}, 1}}, {{{1}, 3}, {{2}, 4}}}}, 1);
    ExpectAccepted(handmade);
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

TEST(CheckPlanTest, PaddedMicrobatchesKeepTheBudgetInSequencesTimesWidth) {
  HandmadePlan handmade = OneRank({7, 3, 8, 1}, 16);
  handmade.options.passes[0].layout = Layout::kPadded;
  handmade.options.passes[0].length_multiple = 2;
  HandmadePlan too_wide = handmade;
  HandmadePlan too_narrow = handmade;
  HandmadePlan unaligned = handmade;
  handmade.AddPass({{{{{0, 2}, 8}, {{1, 3}, 6}}}}, 2);
  ExpectAccepted(handmade);
  EXPECT_EQ(handmade.plan.passes[0].metrics.scheduled_tokens, 28);
  too_wide.AddPass({{{{{0, 2}, 8}, {{1, 3}, 10}}}}, 2);
  ExpectViolation(too_wide,
                  "passes[0].row_widths[1] is 10, and 2 sequences of it are 20 tokens, above "
                  "max_tokens_per_microbatch 16");
  too_narrow.AddPass({{{{{0, 2}, 6}, {{1, 3}, 4}}}}, 2);
  ExpectViolation(too_narrow, "row_widths[0] is 6, below its longest aligned sequence of 8 tokens");
  unaligned.AddPass({{{{{0, 2}, 8}, {{1, 3}, 5}}}}, 2);
  ExpectViolation(unaligned, "row_widths[1] is 5, not a multiple of the length multiple 2");
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

TEST(CheckPlanTest, GroupsStayAsCloseAsThePolicySays) {
  // Groups 5 and 9, of which the first spans both ranks.
  const HandmadePass across_ranks = {{{{{0, 2}, 2}, {{3}, 1}}, {{{1}, 1}, {{4, 5}, 2}}}};
  const HandmadePass across_microbatches = {{{{{0, 2}, 2}, {{1}, 1}}, {{{3}, 1}, {{4, 5}, 2}}}};
  const HandmadePass together = {{{{{0, 1, 2}, 3}}, {{{3, 4, 5}, 3}}}};
  HandmadePlan handmade = OneRank({1, 1, 1, 1, 1, 1}, 4);
  handmade.group_ids = {5, 5, 5, 9, 9, 9};
  handmade.options.topology.data_parallel = 2;
  const auto with = [&](GroupPolicy policy, const HandmadePass& layout) {
    HandmadePlan copy = handmade;
    copy.options.mini_batches.groups = policy;
    copy.AddPass(layout, 1);
    return copy;
  };
  ExpectAccepted(with(GroupPolicy::kIgnore, across_ranks));
  ExpectAccepted(with(GroupPolicy::kSameMiniBatch, across_ranks));
  ExpectViolation(with(GroupPolicy::kSameRank, across_ranks),
                  "has sequences 0 and 1 of group 5 apart, which must be in the same rank");
  ExpectAccepted(with(GroupPolicy::kSameRank, across_microbatches));
  ExpectViolation(with(GroupPolicy::kSameMicrobatch, across_microbatches),
                  "has sequences 0 and 1 of group 5 apart, which must be in the same micro-batch");
  ExpectAccepted(with(GroupPolicy::kSameMicrobatch, together));
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

TEST(CheckPlanTest, EqualSequenceCountsAreEqualOnEveryRankAndMiniBatch) {
  HandmadePlan handmade = OneRank({1, 1, 1, 1}, 4);
  handmade.options.topology.data_parallel = 2;
  handmade.options.passes[0].equal_sequence_counts = true;
  HandmadePlan unequal = handmade;
  handmade.AddPass({{{{{0, 3}, 2}}, {{{1, 2}, 2}}}}, 1);
  ExpectAccepted(handmade);
  unequal.AddPass({{{{{0}, 1}}, {{{1, 2, 3}, 3}}}}, 1);
  ExpectViolation(unequal, "has 3 sequences on rank 1 in mini-batch 0, but 1 on rank 0");
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

// The first pass fixes the ranks; the second has a smaller budget and no mini-batches.
HandmadePlan TwoPasses() {
  HandmadePlan handmade = OneRank({4, 3, 2, 1}, 8);
  handmade.options.topology.data_parallel = 2;
  handmade.options.mini_batches.size = 2;
  handmade.options.passes[0].name = "train";
  handmade.options.passes.push_back(PackedPass("logprobs", 5));
  handmade.options.passes[1].ignore_mini_batches = true;
  handmade.AddPass({{{{{0}, 4}}, {{{1}, 3}}}, {{{{2}, 2}}, {{{3}, 1}}}}, 1);
  return handmade;
}

TEST(CheckPlanTest, LaterPassesFillInsideTheRanksOfTheFirst) {
  HandmadePlan handmade = TwoPasses();
  handmade.AddPass({{{{{0}, 4}, {{2}, 2}}, {{{1}, 3}, {{3}, 1}}}}, 1);
  ExpectAccepted(handmade);

  HandmadePlan moved = TwoPasses();
  moved.AddPass({{{{{1, 2}, 5}}, {{{0, 3}, 5}}}}, 1);
  ExpectViolation(moved, "passes[1] has sequence 0 on rank 1, but passes[0] has it on rank 0");

  HandmadePlan over = TwoPasses();
  over.AddPass({{{{{0, 2}, 6}}, {{{1, 3}, 4}}}}, 1);
  ExpectViolation(over, "passes[1].row_widths[0] is 6, above max_tokens_per_microbatch 5");

  ExpectViolation(TwoPasses(), "passes has 1 entries, but the request has 2");
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

TEST(CheckPlanTest, TheLimitIsTheSmallestOfAllPasses) {
  HandmadePlan handmade = OneRank({7, 6}, 8);
  handmade.options.overlong = OverlongPolicy::kTruncate;
  handmade.options.passes.push_back(PackedPass("second", 11));
  handmade.options.passes[1].length_multiple = 6;
  handmade.AddPass({{{{{0}, 6}, {{1}, 6}}}}, 1, /*limit=*/6);
  handmade.AddPass({{{{{0}, 6}, {{1}, 6}}}}, 6, /*limit=*/6);
  handmade.plan.excluded = {{0, 7, ExclusionReason::kTruncated}};
  ExpectAccepted(handmade);
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
