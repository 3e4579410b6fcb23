// Plans with two passes, padded and packed, with groups and dropped sequences. Each is spoilt in
// one way, and the error names the broken promise.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

// The training pass is aligned to two; the ranks share the width of each slot.
const HandmadePass kTrain = {{{{{1}, 4}, {{0}, 8}}, {{{3}, 4}, {{2}, 8}}},
                             {{{{4, 5}, 6}}, {{{6, 7}, 6}}}};
// The forward pass has packed rows aligned to five, over both mini-batches.
const HandmadePass kForward = {{{{{0, 1, 4}, 20}, {{5}, 10}}, {{{2, 3, 6}, 20}, {{7}, 5}}}};

// Pairs that stay on a rank, equally many sequences on both ranks, two mini-batches of four.
HandmadePlan PairsRequest() {
  HandmadePlan handmade;
  handmade.lengths = {7, 3, 8, 1, 2, 6, 4, 5};
  handmade.group_ids = {9, 9, 4, 4, 7, 7, 1, 1};
  handmade.options.topology.data_parallel = 2;
  handmade.options.mini_batches = {.size = 4, .groups = GroupPolicy::kSameRank};
  PassOptions train = PackedPass("train", 16);
  train.length_multiple = 2;
  train.layout = Layout::kPadded;
  train.sequence_counts = EqualCounts::kExact;
  PassOptions forward = PackedPass("forward", 20);
  forward.length_multiple = 5;
  forward.ignore_mini_batches = true;
  handmade.options.passes = {train, forward};
  return handmade;
}

HandmadePlan Pairs(const HandmadePass& train = kTrain, const HandmadePass& forward = kForward) {
  HandmadePlan handmade = PairsRequest();
  handmade.AddPass(train, 2);
  handmade.AddPass(forward, 5);
  return handmade;
}

// Exchanges two entries of a pass.
void Swap(PassPlan& pass, size_t a, size_t b) {
  std::swap(pass.sequence_index[a], pass.sequence_index[b]);
  std::swap(pass.sequence_lengths[a], pass.sequence_lengths[b]);
}

class MutatedPassesTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutatedPassesTest, AreReportedByName) {
  HandmadePlan handmade = Pairs();
  ASSERT_TRUE(handmade.Check().ok()) << handmade.Check();
  GetParam().apply(handmade);
  ExpectViolation(handmade, "plan check: " + GetParam().violation);
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, MutatedPassesTest,
    ::testing::Values(
        Mutation{"WiderThanTheMiniBatch",
                 [](HandmadePlan& p) { p.plan.passes[0].row_widths[0] = 10; },
                 "passes[0].row_widths[0] is 10, above the longest aligned sequence of mini-batch "
                 "0, 8 tokens"},
        Mutation{"WiderThanItsOwnMiniBatch",
                 [](HandmadePlan& p) { p.plan.passes[0].row_widths[4] = 8; },
                 "passes[0].row_widths[4] is 8, above the longest aligned sequence of mini-batch "
                 "1, 6 tokens"},
        Mutation{"NarrowerThanItsLongest",
                 [](HandmadePlan& p) { p.plan.passes[0].row_widths[1] = 6; },
                 "passes[0].row_widths[1] is 6, below its longest aligned sequence of 8 tokens"},
        Mutation{"CountTimesWidthOverBudget",
                 [](HandmadePlan& p) { p.options.passes[0].max_tokens_per_microbatch = 10; },
                 "passes[0].row_widths[4] is 6, and 2 sequences of it are 12 tokens, above"},
        Mutation{
            "PairOnTwoRanks", [](HandmadePlan& p) { Swap(p.plan.passes[0], 0, 2); },
            "passes[0] has sequences 0 and 1 of group 9 apart, which must be in the same rank"},
        Mutation{
            "PairOnTwoRanksOfTheLaterPass", [](HandmadePlan& p) { Swap(p.plan.passes[1], 2, 6); },
            "passes[1] has sequences 4 and 5 of group 7 apart, which must be in the same rank"},
        Mutation{
            "PairInTwoMicrobatches",
            [](HandmadePlan& p) { p.options.mini_batches.groups = GroupPolicy::kSameMicrobatch; },
            "passes[0] has sequences 0 and 1 of group 9 apart, which must be in the same "
            "micro-batch"},
        Mutation{"OtherMultipleInTheLaterPass",
                 [](HandmadePlan& p) { p.plan.passes[1].length_multiple = 2; },
                 "passes[1].length_multiple is 2, but the request and its topology give 5"},
        Mutation{"MiniBatchesInAPassWithoutAny",
                 [](HandmadePlan& p) {
                   p.plan.passes[1].microbatches_per_rank = {1, 1};
                 },
                 "passes[1].microbatches_per_rank has 2 entries, but there are 1 mini-batches"},
        Mutation{"NoMiniBatchesInAPassWithThem",
                 [](HandmadePlan& p) { p.plan.passes[0].microbatches_per_rank = {3}; },
                 "passes[0].microbatches_per_rank has 1 entries, but there are 2 mini-batches"},
        Mutation{"LaterMinimum", [](HandmadePlan& p) { p.options.passes[1].min_microbatches = 3; },
                 "passes[1].microbatches_per_rank[0] is 2, below the minimum 3"},
        Mutation{"LaterPassMissing", [](HandmadePlan& p) { p.plan.passes.pop_back(); },
                 "passes has 1 entries, but the request has 2"},
        Mutation{"LaterMetrics",
                 [](HandmadePlan& p) { p.plan.passes[1].metrics.predicted_step_time *= 2; },
                 "passes[1].metrics.predicted_step_time is"},
        Mutation{"GroupCutByTheMiniBatches",
                 [](HandmadePlan& p) { p.group_ids = {9, 9, 4, 7, 4, 7, 1, 1}; },
                 "passes[0] has sequence 3 in mini-batch 0, but the manifest's order puts it into "
                 "mini-batch 1"}),
    [](const ::testing::TestParamInfo<Mutation>& info) { return info.param.name; });

TEST(MutatedPassesTest, AWholeGroupOnAnotherRankOfTheLaterPassIsReported) {
  const HandmadePass moved = {{{{{0, 1, 6}, 20}, {{7}, 5}}, {{{2, 3, 4}, 20}, {{5}, 10}}}};
  ExpectViolation(Pairs(kTrain, moved),
                  "plan check: passes[1] has sequence 4 on rank 1, but passes[0] has it on rank 0");
}

TEST(MutatedPassesTest, ASequenceOnAnotherRankThanTheManifestGivesIsReported) {
  HandmadePlan handmade = Pairs();
  handmade.ranks = {0, 0, 1, 1, 0, 0, 1, 1};
  ExpectAccepted(handmade);
  handmade.ranks = {0, 0, 1, 1, 0, 1, 1, 1};
  ExpectViolation(
      handmade,
      "plan check: passes[0] has sequence 5 on rank 0, but manifest.ranks has it on rank 1");
}

TEST(MutatedPassesTest, TheFirstPassSaysWhetherCountsAreEqual) {
  const HandmadePass train = {{{{{0, 1}, 8}}, {{{2, 3}, 8}}}, {{{{4, 5}, 6}}, {{{6, 7}, 6}}}};
  HandmadePlan handmade = Pairs(train);
  handmade.options.passes[1].sequence_counts = EqualCounts::kExact;
  ExpectAccepted(handmade);

  // Three and one, then one and three: equal in all, unequal in each mini-batch.
  HandmadePlan uneven = PairsRequest();
  uneven.group_ids.clear();
  uneven.options.passes[0].ignore_mini_batches = true;
  uneven.options.passes[0].max_tokens_per_microbatch = 32;
  uneven.options.passes[1].ignore_mini_batches = false;
  uneven.AddPass({{{{{0, 1, 2, 4}, 8}}, {{{3, 5, 6, 7}, 6}}}}, 2);
  uneven.AddPass({{{{{0, 1}, 15}, {{2}, 10}}, {{{3}, 5}, {}}}, {{{{4}, 5}}, {{{6, 7, 5}, 20}}}}, 5);
  uneven.options.allow_empty_microbatches = true;
  ExpectViolation(
      uneven, "plan check: passes[1] has 1 sequences on rank 1 in mini-batch 0, but 3 on rank 0");
  uneven.options.passes[0].sequence_counts = EqualCounts::kAny;
  uneven.options.passes[1].sequence_counts = EqualCounts::kExact;
  ExpectAccepted(uneven);
}

TEST(MutatedPassesTest, CountsWithinOneAreOfEveryMiniBatch) {
  HandmadePlan handmade;
  handmade.lengths = {1, 1, 1, 1, 1, 1};
  handmade.options.topology.data_parallel = 2;
  handmade.options.mini_batches.size = 3;
  handmade.options.passes = {PackedPass("train", 4), PackedPass("score", 4)};
  handmade.options.passes[0].sequence_counts = EqualCounts::kWithinOne;
  handmade.options.passes[1].ignore_mini_batches = true;
  HandmadePlan uneven = handmade;
  // One rank has one more in each of two mini-batches, and so two more in all.
  handmade.AddPass({{{{{0, 1}, 2}}, {{{2}, 1}}}, {{{{3, 4}, 2}}, {{{5}, 1}}}}, 1);
  handmade.AddPass({{{{{0, 1, 3, 4}, 4}}, {{{2, 5}, 2}}}}, 1);
  ExpectAccepted(handmade);
  handmade.options.passes[0].sequence_counts = EqualCounts::kExact;
  ExpectViolation(handmade, "passes[0] has 1 sequences on rank 1 in mini-batch 0, but 2 on rank 0");
  uneven.options.allow_empty_microbatches = true;
  uneven.AddPass({{{{{0, 1}, 2}}, {{{2}, 1}}}, {{{{3, 4, 5}, 3}}, {{}}}}, 1);
  uneven.AddPass({{{{{0, 1, 3}, 3}, {{4, 5}, 2}}, {{{2}, 1}, {}}}}, 1);
  ExpectViolation(uneven,
                  "passes[0] has 3 sequences on rank 0 in mini-batch 1 of 3, and 2 ranks are to "
                  "have as many within one");
}

TEST(MutatedPassesTest, EqualCountsAreOfWhatIsLeftAfterDropping) {
  HandmadePlan handmade;
  handmade.lengths = {1, 30, 1, 1, 1};
  handmade.options.topology.data_parallel = 2;
  handmade.options.overlong = OverlongPolicy::kDrop;
  handmade.options.passes = {PackedPass("", 4)};
  handmade.options.passes[0].sequence_counts = EqualCounts::kExact;
  handmade.plan.excluded = {{1, 30, ExclusionReason::kDropped}};
  HandmadePlan unequal = handmade;
  handmade.AddPass({{{{{0, 4}, 2}}, {{{2, 3}, 2}}}}, 1);
  ExpectAccepted(handmade);
  unequal.AddPass({{{{{0}, 1}}, {{{2, 3, 4}, 3}}}}, 1);
  ExpectViolation(
      unequal, "plan check: passes[0] has 3 sequences on rank 1 in mini-batch 0, but 1 on rank 0");
}

TEST(MutatedPassesTest, AMiniBatchWithoutSequencesIsNoMiniBatch) {
  HandmadePlan handmade;
  handmade.lengths = {9, 30};
  handmade.options.overlong = OverlongPolicy::kDrop;
  handmade.options.allow_empty_microbatches = true;
  handmade.options.mini_batches.size = 1;
  handmade.options.passes = {PackedPass("", 16)};
  handmade.plan.excluded = {{1, 30, ExclusionReason::kDropped}};
  handmade.AddPass({{{{{0}, 9}}}, {{{}}}}, 1);
  ExpectViolation(handmade, "plan check: passes[0] has no sequences in mini-batch 1");
  handmade.options.passes[0].max_tokens_per_microbatch = 8;
  ExpectViolation(
      handmade,
      "plan check: every sequence is above the length limit 8 or a limit of a load, and dropped");
}

}  // namespace
}  // namespace batchplan::testing
