// A valid plan, spoilt in every way. Each error names exactly the broken promise.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

class MutatedPlanTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutatedPlanTest, IsReportedByName) {
  HandmadePlan handmade = TwoMiniBatches();
  ASSERT_TRUE(handmade.Check().ok()) << handmade.Check();
  GetParam().apply(handmade);
  ExpectViolation(handmade, GetParam().violation);
}

// The order of sequences is 0 1 | 2 || 3 | 5 4 ||| 11 6 | 7 || 8 9 | 10; rows are 16 4 12 8 24 4 20
// 12.
INSTANTIATE_TEST_SUITE_P(
    Sequences, MutatedPlanTest,
    ::testing::Values(
        Mutation{"SequenceTwice", [](HandmadePlan& p) { PassOf(p).sequence_index[1] = 0; },
                 "passes[0].sequence_index[1] is 0, which micro-batch 0 holds already"},
        Mutation{"SequenceOutOfRange", [](HandmadePlan& p) { PassOf(p).sequence_index[1] = 12; },
                 "passes[0].sequence_index[1] is 12, but there are 12 sequences"},
        Mutation{"SequenceMissing",
                 [](HandmadePlan& p) {
                   p.lengths.push_back(1);
                   p.options.mini_batches.size = 0;
                   PassOf(p).microbatches_per_rank = {4};
                 },
                 "passes[0].sequence_index lacks sequence 12"},
        Mutation{"OtherLength", [](HandmadePlan& p) { PassOf(p).sequence_lengths[3] = 11; },
                 "passes[0].sequence_lengths[3] is 11, but sequence 3 is planned with 12 tokens"},
        Mutation{"ExcludedWithoutCause",
                 [](HandmadePlan& p) {
                   p.plan.excluded = {{0, 5, ExclusionReason::kDropped}};
                 },
                 "excluded[0] lists sequence 0, which the overlong policy does not touch at the "
                 "length limit 28"},
        Mutation{"Overlong", [](HandmadePlan& p) { p.lengths[4] = 29; },
                 "manifest.lengths[4] is 29, above the length limit 28"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Budgets, MutatedPlanTest,
    ::testing::Values(
        Mutation{"RowOverBudget", [](HandmadePlan& p) { PassOf(p).row_widths[4] = 32; },
                 "passes[0].row_widths[4] is 32, above max_tokens_per_microbatch 30"},
        Mutation{"LargestRowWidth", [](HandmadePlan& p) { PassOf(p).row_widths[0] = UINT32_MAX; },
                 "passes[0].row_widths[0] is 4294967295, above max_tokens_per_microbatch 30"},
        Mutation{"RowTooNarrow", [](HandmadePlan& p) { PassOf(p).row_widths[4] = 20; },
                 "passes[0].row_widths[4] is 20, below its 24 aligned tokens"},
        Mutation{"SmallerBudget",
                 [](HandmadePlan& p) { OptionsOf(p).max_tokens_per_microbatch = 20; },
                 "passes[0].row_widths[4] is 24, above max_tokens_per_microbatch 20"},
        Mutation{"TooManySequences",
                 [](HandmadePlan& p) { OptionsOf(p).max_sequences_per_microbatch = 1; },
                 "micro-batch 0 has 2 sequences, above max_sequences_per_microbatch 1"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Shapes, MutatedPlanTest,
    ::testing::Values(
        Mutation{"NoPasses", [](HandmadePlan& p) { p.plan.passes.clear(); },
                 "passes has 0 entries, but the request has 1"},
        Mutation{"OtherName", [](HandmadePlan& p) { PassOf(p).name = "test"; },
                 "passes[0].name is \"test\", but the request says \"train\""},
        Mutation{"OffsetsEmpty", [](HandmadePlan& p) { PassOf(p).microbatch_offsets.clear(); },
                 "passes[0].microbatch_offsets is empty"},
        Mutation{"OffsetsStartLate", [](HandmadePlan& p) { PassOf(p).microbatch_offsets[0] = 1; },
                 "passes[0].microbatch_offsets[0] is 1, not 0"},
        Mutation{"OffsetsFall", [](HandmadePlan& p) { PassOf(p).microbatch_offsets[3] = 1; },
                 "passes[0].microbatch_offsets[3] is 1, below 3 before it"},
        Mutation{"OffsetsEndEarly",
                 [](HandmadePlan& p) { PassOf(p).microbatch_offsets.back() = 11; },
                 "passes[0].microbatch_offsets ends at 11, but sequence_index has 12 entries"},
        Mutation{"OffsetsEndLate",
                 [](HandmadePlan& p) { PassOf(p).microbatch_offsets.back() = UINT32_MAX; },
                 "passes[0].microbatch_offsets ends at 4294967295"},
        Mutation{"EmptyMicrobatch", [](HandmadePlan& p) { PassOf(p).microbatch_offsets[2] = 2; },
                 "micro-batch 1 is empty (mini-batch 0, rank 0, slot 1), and empty ones are not"},
        Mutation{"RowWidthMissing", [](HandmadePlan& p) { PassOf(p).row_widths.pop_back(); },
                 "passes[0].row_widths has 7 entries, but there are 8 micro-batches"},
        Mutation{"LengthMissing", [](HandmadePlan& p) { PassOf(p).sequence_lengths.pop_back(); },
                 "passes[0].sequence_lengths has 11 entries, but sequence_index has 12"},
        Mutation{"MiniBatchMissing",
                 [](HandmadePlan& p) { PassOf(p).microbatches_per_rank.pop_back(); },
                 "passes[0].microbatches_per_rank has 1 entries, but there are 2 mini-batches"},
        Mutation{"TooManyMicrobatchesStated",
                 [](HandmadePlan& p) {
                   PassOf(p).microbatches_per_rank = {UINT32_MAX - 1, UINT32_MAX - 1};
                 },
                 "passes[0].microbatches_per_rank over 2 ranks gives more than 8 micro-batches"},
        Mutation{"TooFewMicrobatchesStated",
                 [](HandmadePlan& p) { p.options.topology.data_parallel = 1; },
                 "passes[0].microbatches_per_rank over 1 ranks gives 4 micro-batches, but "
                 "row_widths has 8"},
        Mutation{"BelowTheMinimum", [](HandmadePlan& p) { OptionsOf(p).min_microbatches = 3; },
                 "passes[0].microbatches_per_rank[0] is 2, below the minimum 3"},
        Mutation{"ZeroMicrobatches",
                 [](HandmadePlan& p) {
                   PassOf(p).microbatches_per_rank = {4, 0};
                 },
                 "passes[0].microbatches_per_rank[1] is 0, below the minimum 1"},
        Mutation{"NotTheCountMultiple",
                 [](HandmadePlan& p) { OptionsOf(p).microbatch_count_multiple = 3; },
                 "passes[0].microbatches_per_rank[0] is 2, not a multiple of 6"},
        Mutation{"NotTheStageMultiple",
                 [](HandmadePlan& p) { p.options.topology.pipeline_parallel = 4; },
                 "passes[0].microbatches_per_rank[0] is 2, not a multiple of 4"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    MiniBatches, MutatedPlanTest,
    ::testing::Values(
        Mutation{"AcrossTheBoundary",
                 [](HandmadePlan& p) {
                   // Sequences 2 and 7 have equal aligned lengths, so that the rows stay right.
                   std::swap(PassOf(p).sequence_index[2], PassOf(p).sequence_index[8]);
                   std::swap(PassOf(p).sequence_lengths[2], PassOf(p).sequence_lengths[8]);
                 },
                 "passes[0] has sequence 2 in mini-batch 1, but the manifest's order puts it into "
                 "mini-batch 0"},
        Mutation{"SizeDoesNotDivide", [](HandmadePlan& p) { p.options.mini_batches.size = 5; },
                 "mini_batches.size is 5, which does not divide the 12 sequences"},
        Mutation{"UnequalCounts",
                 [](HandmadePlan& p) {
                   OptionsOf(p).sequence_counts = EqualCounts::kExact;
                   // Rank 0 of mini-batch 0 takes sequence 3 too.
                   PassOf(p).microbatch_offsets[2] = 4;
                   PassOf(p).microbatch_offsets[3] = 5;
                   PassOf(p).row_widths = {16, 16, 4, 4, 24, 4, 20, 12};
                 },
                 "passes[0] has 2 sequences on rank 1 in mini-batch 0, but 4 on rank 0"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Alignment, MutatedPlanTest,
    ::testing::Values(
        Mutation{"OtherMultiple", [](HandmadePlan& p) { PassOf(p).length_multiple = 2; },
                 "passes[0].length_multiple is 2, but the request and its topology give 4"},
        Mutation{"MultipleOfZero", [](HandmadePlan& p) { PassOf(p).length_multiple = 0; },
                 "passes[0].length_multiple is 0, but the request and its topology give 4"},
        Mutation{"RowNotAligned", [](HandmadePlan& p) { PassOf(p).row_widths[1] = 6; },
                 "passes[0].row_widths[1] is 6, not a multiple of the length multiple 4"},
        Mutation{"RowPaddedUnasked", [](HandmadePlan& p) { PassOf(p).row_widths[1] = 8; },
                 "passes[0].row_widths[1] is 8, but row padding gives 4 for its 4 aligned tokens"},
        Mutation{"NoBucketHoldsTheRow",
                 [](HandmadePlan& p) {
                   OptionsOf(p).rows = RowPadding::kBuckets;
                   OptionsOf(p).buckets = {4, 8, 12, 16, 20};
                 },
                 "passes[0].row_widths[4] is 24, but row padding gives 0"}),
    NameOf);

Mutation OffBy(const std::string& name, const std::function<void(PlanMetrics&)>& spoil,
               const std::string& violation) {
  return {name, [spoil](HandmadePlan& p) { spoil(MetricsOf(p)); }, "metrics." + violation};
}

INSTANTIATE_TEST_SUITE_P(
    Metrics, MutatedPlanTest,
    ::testing::Values(
        OffBy(
            "Microbatches", [](PlanMetrics& m) { ++m.microbatches; },
            "microbatches is 9, but the plan has 8"),
        OffBy(
            "TrueTokens", [](PlanMetrics& m) { ++m.true_tokens; },
            "true_tokens is 84, but the plan has 83"),
        OffBy(
            "AlignedTokens", [](PlanMetrics& m) { ++m.aligned_tokens; },
            "aligned_tokens is 101, but the plan has 100"),
        OffBy(
            "ScheduledTokens", [](PlanMetrics& m) { ++m.scheduled_tokens; },
            "scheduled_tokens is 101, but the plan has 100"),
        OffBy(
            "NaiveTokens", [](PlanMetrics& m) { ++m.naive_tokens; },
            "naive_tokens is 193, but the plan has 192"),
        OffBy(
            "LowerBoundTooHigh", [](PlanMetrics& m) { ++m.lower_bound_microbatches; },
            "lower_bound_microbatches is 9, above the plan's 8 micro-batches"),
        OffBy(
            "CertifiedWithoutProof", [](PlanMetrics& m) { --m.lower_bound_microbatches; },
            "certified_optimal is true, but the lower bound is 7 of 8 micro-batches"),
        OffBy(
            "ProvenNotCertified", [](PlanMetrics& m) { m.certified_optimal = false; },
            "certified_optimal is false, but the lower bound is 8 of 8 micro-batches"),
        OffBy(
            "BinUtilizationOfZero", [](PlanMetrics& m) { m.bin_utilization = 0; },
            "bin_utilization is 0, outside (0, 1]"),
        OffBy(
            "BinUtilizationAboveOne", [](PlanMetrics& m) { m.bin_utilization = 1.5; },
            "bin_utilization is 1.5, outside (0, 1]"),
        OffBy(
            "BinUtilization", [](PlanMetrics& m) { m.bin_utilization += 0.01; },
            "bin_utilization is"),
        OffBy(
            "AlignedBinUtilization", [](PlanMetrics& m) { m.aligned_bin_utilization += 0.01; },
            "aligned_bin_utilization is"),
        OffBy(
            "WasteRatio", [](PlanMetrics& m) { m.waste_ratio = 1; }, "waste_ratio is 1"),
        OffBy(
            "BinBalance", [](PlanMetrics& m) { m.bin_balance = 1; }, "bin_balance is 1"),
        OffBy(
            "PackingEfficiency", [](PlanMetrics& m) { m.packing_efficiency = 1; },
            "packing_efficiency is 1, but the plan has 0.375"),
        OffBy(
            "PaddingRemoved", [](PlanMetrics& m) { m.padding_removed = 0; },
            "padding_removed is 0"),
        OffBy(
            "RankTokenImbalance", [](PlanMetrics& m) { m.rank_token_imbalance = 1; },
            "rank_token_imbalance is 1"),
        OffBy(
            "RankCostImbalance", [](PlanMetrics& m) { m.rank_cost_imbalance = 1; },
            "rank_cost_imbalance is 1"),
        OffBy(
            "IdealStepTime", [](PlanMetrics& m) { m.ideal_step_time *= 1.001; },
            "ideal_step_time is"),
        OffBy(
            "PredictedStepTime", [](PlanMetrics& m) { m.predicted_step_time *= 0.999; },
            "predicted_step_time is"),
        OffBy(
            "StepEfficiency", [](PlanMetrics& m) { m.step_efficiency += 1e-3; },
            "step_efficiency is"),
        OffBy(
            "LowerBoundAboveTheStepTime",
            [](PlanMetrics& m) { m.lower_bound_step_time = m.predicted_step_time * 1.001; },
            "lower_bound_step_time is")),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Costs, MutatedPlanTest,
    ::testing::Values(
        Mutation{"NotANumber",
                 [](HandmadePlan& p) {
                   MetricsOf(p).bin_balance = std::numeric_limits<double>::quiet_NaN();
                 },
                 "passes[0].metrics has the value nan"},
        Mutation{"Infinite",
                 [](HandmadePlan& p) {
                   MetricsOf(p).predicted_step_time = std::numeric_limits<double>::infinity();
                 },
                 "passes[0].metrics has the value inf"},
        Mutation{
            "OtherCostModel", [](HandmadePlan& p) { p.plan.cost_model_used.per_microbatch = 7; },
            "cost_model_used is 1, 4.06901e-05, 7, 0, but the request says 1, 4.06901e-05, 0, 0"},
        Mutation{"OtherCostOfASequence",
                 [](HandmadePlan& p) { p.plan.cost_model_used.per_sequence = 7; },
                 "cost_model_used is 1, 4.06901e-05, 0, 7, but the request says"},
        Mutation{"OtherExchange",
                 [](HandmadePlan& p) {
                   p.options.cost_model.exchange = {{8, 0.02}, {0, 0.065}};
                   p.plan.cost_model_used.exchange = {{8, 0.02}};
                 },
                 "cost_model_used.exchange is 8:0.02, but the request says 8:0.02 0:0.065"},
        Mutation{"ExchangeThatOverlaps",
                 [](HandmadePlan& p) { p.plan.cost_model_used.exchange_overlaps = true; },
                 "cost_model_used.exchange is none overlaps, but the request says none"},
        Mutation{"NegativeExchange",
                 [](HandmadePlan& p) {
                   p.plan.cost_model_used.exchange = {{0, -1}};
                 },
                 "cost_model_used.exchange has the coefficient -1"},
        Mutation{"ExchangeThatIsNotCounted",
                 [](HandmadePlan& p) {
                   p.options.cost_model.exchange = {{0, 1}};
                   p.plan.cost_model_used = p.options.cost_model;
                 },
                 "metrics.predicted_step_time is"},
        Mutation{"NegativeCost", [](HandmadePlan& p) { p.plan.cost_model_used.per_token = -1; },
                 "cost_model_used has the coefficient -1"},
        Mutation{"NoCost",
                 [](HandmadePlan& p) {
                   p.plan.cost_model_used = {0, 0, 0};
                 },
                 "cost_model_used has only coefficients of 0"}),
    NameOf);

// Both mini-batches have 2 slots.
INSTANTIATE_TEST_SUITE_P(
    Decisions, MutatedPlanTest,
    ::testing::Values(
        Mutation{"DecisionMissing", [](HandmadePlan& p) { PassOf(p).decisions.pop_back(); },
                 "passes[0].decisions has 1 entries, but there should be 2 for 2 mini-batches"},
        Mutation{"DecisionTooMany",
                 [](HandmadePlan& p) { PassOf(p).decisions.push_back(PassOf(p).decisions.back()); },
                 "passes[0].decisions has 3 entries"},
        Mutation{"NoMethod", [](HandmadePlan& p) { PassOf(p).decisions[1].method.clear(); },
                 "passes[0].decisions[1].method is empty"},
        Mutation{"NoSlotsTried", [](HandmadePlan& p) { PassOf(p).decisions[1].tried.clear(); },
                 "passes[0].decisions[1].tried has 0 entries"},
        Mutation{"OwnSlotsNotTried",
                 [](HandmadePlan& p) { PassOf(p).decisions[1].tried[0].slots = 4; },
                 "passes[0].decisions[1].tried lacks the 2 slots that the mini-batch has"},
        Mutation{"OtherTimeOfItsSlots",
                 [](HandmadePlan& p) { PassOf(p).decisions[1].tried[0].step_time *= 1.001; },
                 "passes[0].decisions[1].tried[0].step_time is"},
        Mutation{"SlotsTriedTwice",
                 [](HandmadePlan& p) {
                   auto& tried = PassOf(p).decisions[0].tried;
                   tried.push_back(tried.back());
                 },
                 "passes[0].decisions[0].tried[1].slots is 2, not above 2 before it"},
        Mutation{
            "SlotsThatAreNotAllowed",
            [](HandmadePlan& p) {
              PassOf(p).decisions[0].tried.push_back({3, 1});
            },
            "passes[0].decisions[0].tried[1].slots is 3, which is not allowed: fewest_slots 2, "
            "minimum 1, multiple 2"},
        Mutation{
            "TriedWithoutATime",
            [](HandmadePlan& p) {
              PassOf(p).decisions[0].tried.push_back({4, std::numeric_limits<double>::quiet_NaN()});
            },
            "passes[0].decisions[0].tried[1].step_time is nan"},
        Mutation{"MoreFewestSlotsThanItHas",
                 [](HandmadePlan& p) { PassOf(p).decisions[0].fewest_slots = 4; },
                 "passes[0].decisions[0].tried[0].slots is 2, which is not allowed"},
        Mutation{"FewestSlotsThatTheBoundIsNot",
                 [](HandmadePlan& p) { PassOf(p).decisions[0].fewest_slots = 1; },
                 "passes[0].decisions have fewest_slots of together 3, but "
                 "metrics.lower_bound_microbatches is 8 on 2 ranks"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Requests, MutatedPlanTest,
    ::testing::Values(
        Mutation{"NoLengths", [](HandmadePlan& p) { p.lengths.clear(); },
                 "manifest.lengths is empty"},
        Mutation{"LengthOfZero", [](HandmadePlan& p) { p.lengths[3] = 0; },
                 "manifest.lengths[3] is 0"},
        Mutation{"GroupsOfAnotherSize",
                 [](HandmadePlan& p) {
                   p.group_ids = {1, 2};
                 },
                 "manifest.group_ids has 2 entries, but there are 12 sequences"},
        Mutation{"RanksOfAnotherSize", [](HandmadePlan& p) { p.ranks = {0}; },
                 "manifest.ranks has 1 entries, but there are 12 sequences"},
        Mutation{"RankBeyondTheTopology",
                 [](HandmadePlan& p) {
                   p.ranks.assign(12, 0);
                   p.ranks[7] = 2;
                 },
                 "manifest.ranks[7] is 2, not below topology.data_parallel 2"},
        Mutation{"HugeTopology",
                 [](HandmadePlan& p) { p.options.topology.data_parallel = 1u << 31; },
                 "topology has a parallel size of 2147483648, above 65536"},
        Mutation{"HugeMultiple", [](HandmadePlan& p) { OptionsOf(p).length_multiple = UINT32_MAX; },
                 "the length multiple of 4294967295 and the topology's 4 is above 4294967295"},
        Mutation{"BudgetOfZero",
                 [](HandmadePlan& p) { OptionsOf(p).max_tokens_per_microbatch = 0; },
                 "manifest.lengths[0] is 5, above the length limit 0"},
        Mutation{"TruncatedToNothing",
                 [](HandmadePlan& p) {
                   OptionsOf(p).max_tokens_per_microbatch = 3;
                   p.options.overlong = OverlongPolicy::kTruncate;
                 },
                 "the length limit is 0, and manifest.lengths[0] can't be truncated to it"},
        Mutation{"NoPassesAsked", [](HandmadePlan& p) { p.options.passes.clear(); },
                 "the request has no passes"}),
    NameOf);

}  // namespace
}  // namespace batchplan::testing
