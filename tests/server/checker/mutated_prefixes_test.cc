// Valid plans of sequences that share prefixes, spoilt in every way.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

// Sequence 2 is the first six tokens of 0. Sequence 1 branches off 0 behind these six, and 3 behind
// nine. Sequence 5 is a copy of 4, and 6 has the first three tokens of both. Sequence 7 shares
// nothing.
HandmadePlan ForestRequest() {
  HandmadePlan handmade;
  handmade.lengths = {10, 8, 6, 12, 7, 7, 9, 5};
  handmade.shared_prefixes = {0, 6, 6, 9, 0, 7, 3, 0};
  handmade.shared_with = {9, 0, 1, 0, 9, 4, 5, 9};
  handmade.options.topology.data_parallel = 2;
  PassOptions train = PackedPass("train", 24);
  train.length_multiple = 4;
  handmade.options.passes = {train};
  return handmade;
}

// The rows have 15 and 5, and 7 and 9 tokens; 33 are different.
HandmadePlan Forest() {
  HandmadePlan handmade = ForestRequest();
  handmade.AddPass(
      {{{{{2, 0, 3, 1}, 16, {0, 6, 9, 6}}, {{7}, 8, {0}}}, {{{4, 5}, 8, {0, 7}}, {{6}, 12, {0}}}}},
      4);
  return handmade;
}

// Changes the order of sequences in the first micro-batch.
void Reorder(HandmadePlan& handmade, const std::vector<uint32_t>& sequences,
             const std::vector<uint32_t>& shared) {
  for (size_t k = 0; k < sequences.size(); ++k) {
    PassOf(handmade).sequence_index[k] = sequences[k];
    PassOf(handmade).sequence_lengths[k] = handmade.lengths[sequences[k]];
    PassOf(handmade).shared_tokens[k] = shared[k];
  }
}

class MutatedPrefixesTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutatedPrefixesTest, AreReportedByName) {
  HandmadePlan handmade = Forest();
  ASSERT_TRUE(handmade.Check().ok()) << handmade.Check();
  GetParam().apply(handmade);
  ExpectViolation(handmade, "plan check: " + GetParam().violation);
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, MutatedPrefixesTest,
    ::testing::Values(
        Mutation{"AboveItsLength", [](HandmadePlan& p) { p.shared_prefixes[1] = 9; },
                 "manifest.shared_prefixes[1] is 9, but sequences 1 and 0 have 8 and 10 tokens"},
        Mutation{"AboveTheOthersLength", [](HandmadePlan& p) { p.shared_prefixes[3] = 11; },
                 "manifest.shared_prefixes[3] is 11, but sequences 3 and 0 have 12 and 10 tokens"},
        Mutation{"WithItself", [](HandmadePlan& p) { p.shared_with[3] = 3; },
                 "manifest.shared_with[3] is 3, no earlier sequence"},
        Mutation{"WithALaterOne", [](HandmadePlan& p) { p.shared_with[1] = 6; },
                 "manifest.shared_with[1] is 6, no earlier sequence"},
        Mutation{"WithNobody", [](HandmadePlan& p) { p.shared_with[1] = UINT32_MAX; },
                 "manifest.shared_with[1] is 4294967295, no earlier sequence"},
        Mutation{"PrefixesOfAnotherSize", [](HandmadePlan& p) { p.shared_prefixes.pop_back(); },
                 "manifest.shared_prefixes has 7 entries, shared_with 8 and group_ids 0, but there "
                 "are 8 sequences"},
        Mutation{"WithOfAnotherSize", [](HandmadePlan& p) { p.shared_with.push_back(0); },
                 "manifest.shared_prefixes has 8 entries, shared_with 9 and group_ids 0"},
        Mutation{"NeitherWithNorGroups", [](HandmadePlan& p) { p.shared_with.clear(); },
                 "manifest.shared_prefixes has 8 entries, shared_with 0 and group_ids 0"},
        Mutation{"WithWithoutPrefixes", [](HandmadePlan& p) { p.shared_prefixes.clear(); },
                 "manifest.shared_prefixes has 0 entries, shared_with 8"},
        Mutation{"Padded", [](HandmadePlan& p) { OptionsOf(p).layout = Layout::kPadded; },
                 "manifest.shared_prefixes is set, but passes[0] is padded"},
        Mutation{"DynamicContext",
                 [](HandmadePlan& p) { p.options.topology.dynamic_context.emplace(); },
                 "manifest.shared_prefixes is set, but groups of ranks are to differ"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Sizes, MutatedPrefixesTest,
    ::testing::Values(
        Mutation{"Missing", [](HandmadePlan& p) { PassOf(p).shared_tokens.clear(); },
                 "passes[0].shared_tokens has 0 entries, but sequence_index has 8"},
        Mutation{"OneTooFew", [](HandmadePlan& p) { PassOf(p).shared_tokens.pop_back(); },
                 "passes[0].shared_tokens has 7 entries, but sequence_index has 8"},
        Mutation{"ThePassIgnoresThem",
                 [](HandmadePlan& p) { OptionsOf(p).ignore_shared_prefixes = true; },
                 "passes[0].shared_tokens has 8 entries, but ignore_shared_prefixes is set"},
        Mutation{"NobodyShares", [](HandmadePlan& p) { p.shared_prefixes.assign(8, 0); },
                 "passes[0].shared_tokens has 8 entries, but no two sequences share anything"},
        Mutation{"NothingIsSaid",
                 [](HandmadePlan& p) {
                   p.shared_prefixes.clear();
                   p.shared_with.clear();
                 },
                 "passes[0].shared_tokens has 8 entries, but no two sequences share anything"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    SharedTokens, MutatedPrefixesTest,
    ::testing::Values(
        Mutation{"OneMore", [](HandmadePlan& p) { PassOf(p).shared_tokens[1] = 7; },
                 "passes[0].shared_tokens[1] is 7, but sequence 0 has 6 first tokens in common "
                 "with sequence 2 before it"},
        Mutation{"OneLess", [](HandmadePlan& p) { PassOf(p).shared_tokens[2] = 8; },
                 "passes[0].shared_tokens[2] is 8, but sequence 3 has 9"},
        Mutation{"AsWithTheOneItBranchesOff",
                 [](HandmadePlan& p) { PassOf(p).shared_tokens[3] = 9; },
                 "passes[0].shared_tokens[3] is 9, but sequence 1 has 6"},
        Mutation{"OfTheFirst", [](HandmadePlan& p) { PassOf(p).shared_tokens[0] = 1; },
                 "passes[0].shared_tokens[0] is 1, but sequence 2 is the first of its micro-batch"},
        Mutation{"WithTheMicrobatchBefore", [](HandmadePlan& p) { PassOf(p).shared_tokens[7] = 3; },
                 "passes[0].shared_tokens[7] is 3, but sequence 6 is the first of its"},
        Mutation{"ACopyLaidTwice", [](HandmadePlan& p) { PassOf(p).shared_tokens[6] = 0; },
                 "passes[0].shared_tokens[6] is 0, but sequence 5 has 7 first tokens in common"},
        Mutation{"BeyondItsLength",
                 [](HandmadePlan& p) { PassOf(p).shared_tokens[3] = UINT32_MAX; },
                 "passes[0].shared_tokens[3] is 4294967295, but sequence 1 has 6"},
        Mutation{"WithWhomNothingIsShared",
                 [](HandmadePlan& p) {
                   PassOf(p).microbatch_offsets = {0, 3, 5, 7, 8};
                 },
                 "passes[0].shared_tokens[3] is 6, but sequence 1 is the first"},
        Mutation{"AsTheManifestSaidBefore", [](HandmadePlan& p) { p.shared_prefixes[5] = 6; },
                 "passes[0].shared_tokens[6] is 7, but sequence 5 has 6"},
        Mutation{
            "TornSubtree",
            [](HandmadePlan& p) {
              Reorder(p, {2, 0, 1, 3}, {0, 6, 6, 6});
            },
            "passes[0] micro-batch 0 lays 18 tokens, but its sequences have 15 different ones"},
        Mutation{"TornSubtreeWithTheTokensOfTheWhole",
                 [](HandmadePlan& p) {
                   Reorder(p, {2, 0, 1, 3}, {0, 6, 6, 9});
                 },
                 "passes[0].shared_tokens[3] is 9, but sequence 3 has 6 first tokens in common "
                 "with sequence 1 before it"},
        Mutation{"ExchangedAlone",
                 [](HandmadePlan& p) {
                   Reorder(p, {2, 0, 1, 3}, {0, 6, 9, 6});
                 },
                 "passes[0].shared_tokens[2] is 9, but sequence 1 has 6"},
        Mutation{"APrefixBehindWhatExtendsIt",
                 [](HandmadePlan& p) {
                   Reorder(p, {0, 3, 1, 2}, {0, 9, 6, 6});
                 },
                 "passes[0].sequence_index[3] is 2, which is a prefix of sequence 1 and has to "
                 "stand before it"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Rows, MutatedPrefixesTest,
    ::testing::Values(
        Mutation{"AsWideAsWithoutSharing",
                 [](HandmadePlan& p) {
                   OptionsOf(p).max_tokens_per_microbatch = 40;
                   PassOf(p).row_widths[0] = 36;
                 },
                 "passes[0].row_widths[0] is 36, but row padding gives 16 for its 16"},
        Mutation{"AsWideAsTwoCopies", [](HandmadePlan& p) { PassOf(p).row_widths[2] = 16; },
                 "passes[0].row_widths[2] is 16, but row padding gives 8 for its 8"},
        Mutation{"AlignedSequenceBySequence", [](HandmadePlan& p) { PassOf(p).row_widths[0] = 20; },
                 "passes[0].row_widths[0] is 20, but row padding gives 16 for its 16"},
        Mutation{"NotRounded", [](HandmadePlan& p) { PassOf(p).row_widths[0] = 15; },
                 "passes[0].row_widths[0] is 15, below its 16"},
        Mutation{"AboveTheBudget",
                 [](HandmadePlan& p) { OptionsOf(p).max_tokens_per_microbatch = 15; },
                 "passes[0].row_widths[0] is 16, above max_tokens_per_microbatch 15"},
        Mutation{"AboveTheNumberOfSequences",
                 [](HandmadePlan& p) { OptionsOf(p).max_sequences_per_microbatch = 3; },
                 "passes[0] micro-batch 0 has 4 sequences, above max_sequences_per_microbatch 3"},
        Mutation{"NotPadded", [](HandmadePlan& p) { OptionsOf(p).rows = RowPadding::kCapacity; },
                 "passes[0].row_widths[0] is 16, but row padding gives 24 for its 16"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Metrics, MutatedPrefixesTest,
    ::testing::Values(
        Mutation{"LaidTokens", [](HandmadePlan& p) { MetricsOf(p).laid_tokens = 33; },
                 "passes[0].metrics.laid_tokens is 33, but the plan has 36"},
        Mutation{"UniqueTokens", [](HandmadePlan& p) { MetricsOf(p).unique_tokens = 36; },
                 "passes[0].metrics.unique_tokens is 36, but the plan has 33"},
        Mutation{"TrueTokens", [](HandmadePlan& p) { MetricsOf(p).true_tokens = 36; },
                 "passes[0].metrics.true_tokens is 36, but the plan has 64"},
        Mutation{"AlignedTokens", [](HandmadePlan& p) { MetricsOf(p).aligned_tokens = 44; },
                 "passes[0].metrics.aligned_tokens is 44, but the plan has 36"},
        Mutation{"UtilizationByTrueTokens",
                 [](HandmadePlan& p) { MetricsOf(p).bin_utilization = 64.0 / 96; },
                 "passes[0].metrics.bin_utilization is 0.666667, but the plan has 0.375"},
        Mutation{"WasteOfAnotherPlan", [](HandmadePlan& p) { MetricsOf(p).waste_ratio = 0.5; },
                 "passes[0].metrics.waste_ratio is 0.5, but the plan has 0.625"},
        Mutation{"EfficiencyByTrueTokens",
                 [](HandmadePlan& p) { MetricsOf(p).packing_efficiency = 0.75; },
                 "passes[0].metrics.packing_efficiency is 0.75, but the plan has 0.5"},
        Mutation{"BalanceByTrueTokens", [](HandmadePlan& p) { MetricsOf(p).bin_balance = 0.1; },
                 "passes[0].metrics.bin_balance is 0.1, but the plan has 0.519945"},
        Mutation{"RankTokensByTrueTokens",
                 [](HandmadePlan& p) { MetricsOf(p).rank_token_imbalance = 41 / 32.0; },
                 "passes[0].metrics.rank_token_imbalance is 1.28125, but the plan has 1.11111"},
        Mutation{"TimeOfWholeSequences",
                 [](HandmadePlan& p) { MetricsOf(p).predicted_step_time *= 1.5; },
                 "passes[0].metrics.predicted_step_time is"},
        Mutation{"IdealTimeOfWholeSequences",
                 [](HandmadePlan& p) { MetricsOf(p).ideal_step_time *= 1.5; },
                 "passes[0].metrics.ideal_step_time is"}),
    NameOf);

// Each of these mutations breaks a promise by itself; these plans keep all promises.
TEST(HandmadePrefixesTest, RowsMayTearFamiliesApartAndListCopiesInAnyOrder) {
  HandmadePlan handmade = ForestRequest();
  handmade.AddPass(
      {{{{{3, 7}, 20, {0, 0}}, {{1}, 8, {0}}}, {{{6, 5, 4}, 16, {0, 3, 7}}, {{2, 0}, 12, {0, 6}}}}},
      4);
  ExpectAccepted(handmade);
}

TEST(HandmadePrefixesTest, GroupsShareWithTheirFirst) {
  HandmadePlan handmade;
  handmade.lengths = {6, 9, 7, 5};
  handmade.group_ids = {3, 8, 3, 3};
  // Ignored for the first sequence of a group.
  handmade.shared_prefixes = {6, 9, 4, 4};
  handmade.options.passes = {PackedPass("train", 20)};
  HandmadePlan apart = handmade;
  handmade.AddPass({{{{{0, 2, 3}, 10, {0, 4, 4}}, {{1}, 9, {0}}}}}, 1);
  ExpectAccepted(handmade);
  apart.AddPass({{{{{1, 0}, 15, {0, 0}}, {{2, 3}, 8, {0, 3}}}}}, 1);
  ExpectViolation(apart,
                  "passes[0].shared_tokens[3] is 3, but sequence 3 has 4 first tokens in "
                  "common with sequence 2 before it");
}

TEST(HandmadePrefixesTest, ExchangeIsOfWhatIsLaid) {
  for (const bool overlaps : {false, true}) {
    HandmadePlan handmade = ForestRequest();
    handmade.options.topology.context_parallel = 2;
    handmade.options.cost_model = {1, 0.01, 3, 2, {{0, 0.5}}, overlaps};
    handmade.AddPass({{{{{2, 0, 3, 1}, 16, {0, 6, 9, 6}}, {{7}, 8, {0}}},
                       {{{4, 5}, 8, {0, 7}}, {{6}, 12, {0}}}}},
                     4);
    ExpectAccepted(handmade);
    MetricsOf(handmade).predicted_step_time += 0.01;
    ExpectViolation(handmade, "passes[0].metrics.predicted_step_time is");
  }
}

TEST(HandmadePrefixesTest, UniqueTokensAreOfEachMiniBatch) {
  HandmadePlan handmade;
  handmade.lengths = {4, 5, 6, 7};
  handmade.shared_prefixes = {0, 4, 5, 6};
  handmade.shared_with = {0, 0, 1, 2};
  handmade.options.mini_batches.size = 2;
  handmade.options.passes = {PackedPass("train", 10)};
  handmade.AddPass({{{{{0, 1}, 5, {0, 4}}}}, {{{{2, 3}, 7, {0, 6}}}}}, 1);
  EXPECT_EQ(MetricsOf(handmade).unique_tokens, 12u);
  ExpectAccepted(handmade);
  MetricsOf(handmade).unique_tokens = 7;
  ExpectViolation(handmade, "passes[0].metrics.unique_tokens is 7, but the plan has 12");
}

// The first sequence exceeds the budget; the others share through it.
HandmadePlan WithOverlong(OverlongPolicy policy) {
  HandmadePlan handmade;
  handmade.lengths = {20, 12, 14, 18};
  handmade.shared_prefixes = {0, 10, 11, 17};
  handmade.shared_with = {0, 0, 0, 0};
  handmade.options.overlong = policy;
  handmade.options.passes = {PackedPass("train", 16)};
  return handmade;
}

TEST(HandmadePrefixesTest, SharedThroughWhatIsDropped) {
  HandmadePlan handmade = WithOverlong(OverlongPolicy::kDrop);
  handmade.plan.excluded = {{0, 20, ExclusionReason::kDropped}, {3, 18, ExclusionReason::kDropped}};
  handmade.AddPass({{{{{1, 2}, 16, {0, 10}}}}}, 1);
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  PassOf(spoilt).shared_tokens[1] = 0;
  ExpectViolation(spoilt, "passes[0].shared_tokens[1] is 0, but sequence 2 has 10");
  spoilt = handmade;
  MetricsOf(spoilt).unique_tokens = 26;
  ExpectViolation(spoilt, "passes[0].metrics.unique_tokens is 26, but the plan has 16");
}

TEST(HandmadePrefixesTest, WhatIsDroppedStillSaysThatAPassShares) {
  HandmadePlan handmade;
  handmade.lengths = {20, 12, 14};
  handmade.shared_prefixes = {0, 0, 11};
  handmade.shared_with = {0, 0, 0};
  handmade.options.overlong = OverlongPolicy::kDrop;
  handmade.options.passes = {PackedPass("train", 16)};
  handmade.plan.excluded = {{0, 20, ExclusionReason::kDropped}};
  HandmadePlan unshared = handmade;
  handmade.AddPass({{{{{1}, 12, {0}}, {{2}, 14, {0}}}}}, 1);
  ExpectAccepted(handmade);
  unshared.AddPass({{{{{1}, 12}, {{2}, 14}}}}, 1);
  ExpectViolation(unshared, "passes[0].shared_tokens has 0 entries, but sequence_index has 2");
}

TEST(HandmadePrefixesTest, TruncationCutsWhatIsShared) {
  HandmadePlan handmade = WithOverlong(OverlongPolicy::kTruncate);
  handmade.plan.excluded = {{0, 20, ExclusionReason::kTruncated},
                            {3, 18, ExclusionReason::kTruncated}};
  handmade.AddPass({{{{{0, 3}, 16, {0, 16}}, {{1, 2}, 16, {0, 10}}}}}, 1, 16);
  ExpectAccepted(handmade);
  PassOf(handmade).shared_tokens[1] = 17;
  ExpectViolation(handmade, "passes[0].shared_tokens[1] is 17, but sequence 3 has 16");
}

TEST(HandmadePrefixesTest, AloneASequenceSharesWithNobody) {
  HandmadePlan handmade = WithOverlong(OverlongPolicy::kAlone);
  handmade.plan.excluded = {{0, 20, ExclusionReason::kAlone}, {3, 18, ExclusionReason::kAlone}};
  HandmadePlan together = handmade;
  handmade.AddPass({{{{{0}, 20, {0}}, {{3}, 18, {0}}, {{1, 2}, 16, {0, 10}}}}}, 1);
  EXPECT_EQ(MetricsOf(handmade).unique_tokens, 54u);
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  MetricsOf(spoilt).unique_tokens = 20 + 1 + 2 + 3;
  ExpectViolation(spoilt, "passes[0].metrics.unique_tokens is 26, but the plan has 54");
  spoilt = handmade;
  PassOf(spoilt).shared_tokens[1] = 17;
  ExpectViolation(spoilt, "passes[0].shared_tokens[1] is 17, but sequence 3 is the first of its");
  together.AddPass({{{{{0, 3}, 21, {0, 17}}, {{1, 2}, 16, {0, 10}}}}}, 1);
  ExpectViolation(together, "passes[0].row_widths[0] is 21, above max_tokens_per_microbatch 16");
}

TEST(HandmadePrefixesTest, APassThatIgnoresThemSharesNothing) {
  HandmadePlan handmade = ForestRequest();
  PassOptions forward = PackedPass("forward", 24);
  forward.ignore_shared_prefixes = true;
  handmade.options.passes.push_back(forward);
  handmade.AddPass(
      {{{{{2, 0, 3, 1}, 16, {0, 6, 9, 6}}, {{7}, 8, {0}}}, {{{4, 5}, 8, {0, 7}}, {{6}, 12, {0}}}}},
      4);
  handmade.AddPass({{{{{3, 1}, 20}, {{0, 2, 7}, 21}}, {{{4, 5}, 14}, {{6}, 9}}}}, 1);
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  spoilt.plan.passes[1].shared_tokens.assign(8, 0);
  ExpectViolation(spoilt,
                  "passes[1].shared_tokens has 8 entries, but ignore_shared_prefixes is set");
  spoilt = handmade;
  spoilt.plan.passes[1].metrics.laid_tokens = 64;
  ExpectViolation(spoilt, "passes[1].metrics.laid_tokens is 64, but the plan has 0");
  spoilt = handmade;
  spoilt.plan.passes[1].metrics.unique_tokens = 33;
  ExpectViolation(spoilt, "passes[1].metrics.unique_tokens is 33, but the plan has 0");
}

// Three sequences wait and two are taken. They are related through the one that goes on waiting.
HandmadePlan Selected(const std::vector<uint32_t>& prefixes) {
  HandmadePlan handmade;
  handmade.lengths = {9, 5, 8, 6};
  handmade.shared_prefixes = prefixes;
  handmade.shared_with = {0, 0, 1, 1};
  handmade.options.passes = {PackedPass("train", 20)};
  handmade.options.selection = {.sequences = 2, .max_overtaking = 5};
  handmade.plan.deferred = {0, 1};
  return handmade;
}

TEST(HandmadePrefixesTest, SharedThroughWhatIsDeferred) {
  HandmadePlan handmade = Selected({0, 4, 5, 3});
  handmade.AddPass({{{{{2, 3}, 11, {0, 3}}}}}, 1);
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  PassOf(spoilt).shared_tokens[1] = 4;
  ExpectViolation(spoilt, "passes[0].shared_tokens[1] is 4, but sequence 1 has 3");
  spoilt = handmade;
  PassOf(spoilt).shared_tokens.clear();
  ExpectViolation(spoilt, "passes[0].shared_tokens has 0 entries, but sequence_index has 2");
  spoilt = handmade;
  MetricsOf(spoilt).unique_tokens = 14;
  ExpectViolation(spoilt, "passes[0].metrics.unique_tokens is 14, but the plan has 11");
}

TEST(HandmadePrefixesTest, WhatIsDeferredSharesWithNobodyThatIsTaken) {
  HandmadePlan handmade = Selected({0, 4, 5, 0});
  HandmadePlan shared = handmade;
  handmade.AddPass({{{{{2, 3}, 14}}}}, 1);
  ExpectAccepted(handmade);
  shared.AddPass({{{{{2, 3}, 14, {0, 0}}}}}, 1);
  ExpectViolation(shared,
                  "passes[0].shared_tokens has 2 entries, but no two sequences share anything");
}

}  // namespace
}  // namespace batchplan::testing
