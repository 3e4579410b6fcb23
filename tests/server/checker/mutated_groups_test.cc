// A valid plan with groups that differ in size, spoilt in every way. Each error names exactly the
// promise that was broken.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

// Four ranks, each with room for 8 tokens, in two slots. The first has sequence 0 on all ranks; the
// second has 4 on two ranks, and 3 and then 1 with 2 on one rank each. Groups of 2 and 4 align to 4
// and 8. The micro-batches cost 6 + 9 + 2, 6 + 3 + 2, 8 + 2 and 8 + 2: computation, exchange and
// launch.
HandmadePlan TwoSlots() {
  HandmadePlan handmade;
  handmade.lengths = {20, 5, 3, 8, 12};
  PlanOptions& options = handmade.options;
  options.topology = {.data_parallel = 2, .context_parallel = 2};
  options.topology.dynamic_context.emplace();
  options.cost_model = {.per_token = 1,
                        .per_token_squared = 0,
                        .per_microbatch = 2,
                        .exchange = {{.up_to_size = 0, .per_token = 0.5}}};
  options.passes = {PackedPass("train", 16)};
  handmade.plan.cost_model_used = options.cost_model;
  PassPlan& pass = handmade.plan.passes.emplace_back();
  pass.name = "train";
  pass.sequence_index = {0, 4, 3, 1, 2};
  pass.sequence_lengths = {20, 12, 8, 5, 3};
  pass.microbatch_offsets = {0, 1, 2, 3, 5};
  pass.microbatches_per_rank = {2};
  pass.row_widths = {24, 12, 8, 8};
  pass.context_sizes = {4, 2, 1, 1};
  PlanMetrics& metrics = pass.metrics;
  metrics.microbatches = 4;
  metrics.lower_bound_microbatches = 2;
  metrics.true_tokens = 48;
  metrics.aligned_tokens = 52;
  metrics.scheduled_tokens = 52;
  metrics.naive_tokens = 100;
  metrics.bin_utilization = 48.0 / 64;
  metrics.aligned_bin_utilization = 52.0 / 64;
  metrics.waste_ratio = 16.0 / 64;
  // 20 of 32, 12 of 16, 8 of 8 and 8 of 8 tokens are used.
  metrics.bin_balance = 1 - 0.1875 / 0.84375;
  metrics.packing_efficiency = 1;
  metrics.padding_removed = 0.48;
  // The ranks have 6 + 6, 6 + 6, 6 + 8 and 6 + 8 tokens, and cost 28, 28, 27 and 27.
  metrics.rank_token_imbalance = 14.0 / 13;
  metrics.rank_cost_imbalance = 28.0 / 27.5;
  // 48 tokens on four ranks, in two slots of 32.
  metrics.ideal_step_time = 12 + 2 * 2;
  metrics.lower_bound_step_time = 16;
  metrics.predicted_step_time = 17 + 11;
  metrics.step_efficiency = 16.0 / 28;
  pass.decisions = {{.method = "balanced", .fewest_slots = 2, .tried = {{2, 28}}}};
  metrics.mean_length_taken = 48.0 / 5;
  return handmade;
}

class MutatedGroupsTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutatedGroupsTest, IsReportedByName) {
  HandmadePlan handmade = TwoSlots();
  ASSERT_TRUE(handmade.Check().ok()) << handmade.Check();
  GetParam().apply(handmade);
  ExpectViolation(handmade, GetParam().violation);
}

INSTANTIATE_TEST_SUITE_P(
    Places, MutatedGroupsTest,
    ::testing::Values(
        Mutation{"NoPowerOfTwo", [](HandmadePlan& p) { PassOf(p).context_sizes[1] = 3; },
                 "passes[0].context_sizes[1] is 3, which topology.dynamic_context does not allow"},
        Mutation{"BelowTheLeastSize",
                 [](HandmadePlan& p) { p.options.topology.dynamic_context->min_size = 2; },
                 "passes[0].context_sizes[2] is 1, which topology.dynamic_context does not allow"},
        Mutation{"AboveTheLargestSize",
                 [](HandmadePlan& p) {
                   p.options.topology.dynamic_context->max_size = 2;
                   OptionsOf(p).max_tokens_per_microbatch = 32;
                 },
                 "passes[0].context_sizes[0] is 4, which topology.dynamic_context does not allow"},
        Mutation{"Ascending",
                 [](HandmadePlan& p) {
                   PassOf(p).context_sizes = {4, 1, 1, 2};
                 },
                 "passes[0].context_sizes[3] is 2, above 1 before it in slot 1 of mini-batch 0"},
        Mutation{"BeyondThePool",
                 [](HandmadePlan& p) {
                   p.options.topology.data_parallel = 3;
                   PassOf(p).context_sizes = {4, 4, 4, 2};
                 },
                 "passes[0].context_sizes[1] is 4, but slot 0 of mini-batch 0 has 2 ranks of the "
                 "pool left"},
        Mutation{"RanksWithoutAGroup",
                 [](HandmadePlan& p) { PassOf(p).microbatches_per_rank = {3}; },
                 "passes[0].context_sizes ends in slot 2 of mini-batch 0 with 4 ranks of the pool "
                 "without a group"},
        Mutation{"AGroupBeyondTheSlots",
                 [](HandmadePlan& p) { PassOf(p).microbatches_per_rank = {1}; },
                 "passes[0].microbatches_per_rank gives slots of 1 groups, but context_sizes has "
                 "4"},
        Mutation{"TooFewSlots", [](HandmadePlan& p) { OptionsOf(p).min_microbatches = 3; },
                 "passes[0].microbatches_per_rank[0] is 2, below the minimum 3"},
        Mutation{"SizeMissing", [](HandmadePlan& p) { PassOf(p).context_sizes.pop_back(); },
                 "passes[0].context_sizes has 3 entries, but there are 4 micro-batches"},
        Mutation{"SizesOfFixedGroups",
                 [](HandmadePlan& p) {
                   p.options.topology.dynamic_context.reset();
                   OptionsOf(p).max_tokens_per_microbatch = 32;
                 },
                 "passes[0].context_sizes has 4 entries, but topology.dynamic_context is not set"},
        Mutation{"MetricsOfLoads",
                 [](HandmadePlan& p) {
                   p.loads = {{.name = "patches", .values = {1, 2, 3, 4, 5}}};
                   MetricsOf(p).loads = {{.load = "patches", .largest = 5}};
                 },
                 "passes[0].metrics.loads has 1 entries, but there should be 0"},
        Mutation{"EmptyGroup", [](HandmadePlan& p) { PassOf(p).microbatch_offsets[3] = 2; },
                 "micro-batch 2 is empty (mini-batch 0, rank 2, slot 1), and empty ones are not"},
        Mutation{"GroupOfSequencesApart",
                 [](HandmadePlan& p) {
                   p.group_ids = {0, 1, 2, 1, 3};
                   p.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
                 },
                 "passes[0] has sequences 1 and 3 of group 1 apart"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Rows, MutatedGroupsTest,
    ::testing::Values(
        Mutation{
            "OverTheBudgetOfItsSize",
            [](HandmadePlan& p) { OptionsOf(p).max_tokens_per_microbatch = 15; },
            "passes[0] micro-batch 2 has 8 aligned tokens, above the 7 tokens that a group of 1 "
            "ranks holds"},
        Mutation{"AlignedAsInAnotherSize", [](HandmadePlan& p) { PassOf(p).row_widths[0] = 20; },
                 "passes[0].row_widths[0] is 20, but row padding gives 24 for its 24 tokens, as a "
                 "group of 4 ranks aligns them, to multiples of 8"},
        Mutation{"NarrowerThanTheCapacity",
                 [](HandmadePlan& p) { OptionsOf(p).rows = RowPadding::kCapacity; },
                 "passes[0].row_widths[0] is 24, but row padding gives 32 for its 24 tokens, as a "
                 "group of 4 ranks"},
        Mutation{"NarrowerThanItsBucket",
                 [](HandmadePlan& p) {
                   OptionsOf(p).rows = RowPadding::kBuckets;
                   OptionsOf(p).buckets = {8, 16};
                 },
                 "passes[0].row_widths[0] is 24, but row padding gives 32 for its 24 tokens"},
        Mutation{"NoBucketHoldsIt",
                 [](HandmadePlan& p) {
                   OptionsOf(p).rows = RowPadding::kBuckets;
                   OptionsOf(p).buckets = {8};
                 },
                 "passes[0].row_widths[0] is 24, but row padding gives 0 for its 24 tokens"},
        Mutation{"NarrowerThanAnotherOfItsSize",
                 [](HandmadePlan& p) {
                   OptionsOf(p).rows = RowPadding::kLongest;
                   p.lengths[3] = 6;
                   PassOf(p).sequence_lengths[2] = 6;
                   PassOf(p).row_widths[2] = 6;
                 },
                 "passes[0].row_widths[2] is 6, but row padding gives 8 for its 6 tokens, as a "
                 "group of 1 ranks"},
        Mutation{"OtherMultiple", [](HandmadePlan& p) { PassOf(p).length_multiple = 4; },
                 "passes[0].length_multiple is 4, but the request and its topology give 1"},
        Mutation{"TooManySequences",
                 [](HandmadePlan& p) { OptionsOf(p).max_sequences_per_microbatch = 1; },
                 "micro-batch 3 has 2 sequences, above max_sequences_per_microbatch 1"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Requests, MutatedGroupsTest,
    ::testing::Values(
        Mutation{"MicrobatchesArePadded",
                 [](HandmadePlan& p) { OptionsOf(p).layout = Layout::kPadded; },
                 "passes[0] is padded, packs or balances otherwise than groups that differ can"},
        Mutation{"ABucketThatIsNoRowOfALargerGroup",
                 [](HandmadePlan& p) {
                   OptionsOf(p).rows = RowPadding::kBuckets;
                   OptionsOf(p).buckets = {6, 16};
                 },
                 "a row bucket of 6 makes no rows for groups of 2 ranks, which round lengths up to "
                 "multiples of 4"},
        Mutation{"RanksAreGiven",
                 [](HandmadePlan& p) {
                   p.ranks = {0, 0, 1, 1, 0};
                 },
                 "manifest.ranks is given, but groups are to differ"},
        Mutation{"ShardedBySequence",
                 [](HandmadePlan& p) { OptionsOf(p).sharding = Sharding::kLpt; },
                 "passes[0] divides sequences among single ranks, but groups are to differ"},
        Mutation{"SizesThatMakeNoSense",
                 [](HandmadePlan& p) { p.options.topology.dynamic_context->min_size = 3; },
                 "topology.dynamic_context has sizes of 3 to 0 for a pool of 4 ranks"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Metrics, MutatedGroupsTest,
    ::testing::Values(
        Mutation{"Microbatches", [](HandmadePlan& p) { MetricsOf(p).microbatches = 8; },
                 "passes[0].metrics.microbatches is 8"},
        Mutation{"AlignedTokens", [](HandmadePlan& p) { MetricsOf(p).aligned_tokens = 48; },
                 "passes[0].metrics.aligned_tokens is 48"},
        Mutation{"Utilization", [](HandmadePlan& p) { MetricsOf(p).bin_utilization = 0.7; },
                 "passes[0].metrics.bin_utilization is 0.7"},
        Mutation{"Balance", [](HandmadePlan& p) { MetricsOf(p).bin_balance = 1; },
                 "passes[0].metrics.bin_balance is 1"},
        Mutation{"RankTokens", [](HandmadePlan& p) { MetricsOf(p).rank_token_imbalance = 1; },
                 "passes[0].metrics.rank_token_imbalance is 1"},
        Mutation{"RankCost", [](HandmadePlan& p) { MetricsOf(p).rank_cost_imbalance = 1; },
                 "passes[0].metrics.rank_cost_imbalance is 1"},
        Mutation{"StepTime", [](HandmadePlan& p) { MetricsOf(p).predicted_step_time = 27; },
                 "passes[0].metrics.predicted_step_time is 27"},
        Mutation{"IdealTime", [](HandmadePlan& p) { MetricsOf(p).ideal_step_time = 15; },
                 "passes[0].metrics.ideal_step_time is 15"},
        Mutation{"BoundAboveThePlan",
                 [](HandmadePlan& p) { MetricsOf(p).lower_bound_step_time = 29; },
                 "passes[0].metrics.lower_bound_step_time is 29"},
        Mutation{"ExchangeForgotten",
                 [](HandmadePlan& p) {
                   p.options.cost_model.exchange.clear();
                   p.plan.cost_model_used.exchange.clear();
                 },
                 "passes[0].metrics.rank_cost_imbalance is"}),
    NameOf);

// Two ranks, each with room for 4 tokens: sequence 0 on both, then 1 and 2 on one rank each.
// Sequences of equal length can change places without any other difference.
HandmadePlan ThreeAlike() {
  HandmadePlan handmade;
  handmade.lengths = {4, 4, 4};
  PlanOptions& options = handmade.options;
  options.topology.data_parallel = 2;
  options.topology.dynamic_context.emplace();
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.passes = {PackedPass("train", 4), PackedPass("again", 4)};
  handmade.plan.cost_model_used = options.cost_model;
  PassPlan pass;
  pass.sequence_index = {0, 1, 2};
  pass.sequence_lengths = handmade.lengths;
  pass.microbatch_offsets = {0, 1, 2, 3};
  pass.microbatches_per_rank = {2};
  pass.row_widths = {4, 4, 4};
  pass.context_sizes = {2, 1, 1};
  PlanMetrics& metrics = pass.metrics;
  metrics.microbatches = 3;
  metrics.lower_bound_microbatches = 2;
  metrics.true_tokens = 12;
  metrics.aligned_tokens = 12;
  metrics.scheduled_tokens = 12;
  metrics.naive_tokens = 12;
  metrics.bin_utilization = 0.75;
  metrics.aligned_bin_utilization = 0.75;
  metrics.waste_ratio = 0.25;
  // 4 of 8, 4 of 4 and 4 of 4 tokens are used.
  metrics.bin_balance = 1 - std::sqrt(1.0 / 12) / (5.0 / 6);
  metrics.packing_efficiency = 1;
  metrics.padding_removed = 0;
  metrics.rank_token_imbalance = 1;
  metrics.rank_cost_imbalance = 1;
  metrics.ideal_step_time = 6;
  metrics.lower_bound_step_time = 6;
  metrics.predicted_step_time = 6;
  metrics.step_efficiency = 1;
  metrics.mean_length_taken = 4;
  pass.decisions = {{.method = "balanced", .fewest_slots = 2, .tried = {{2, 6}}}};
  for (const PassOptions& of_pass : options.passes) {
    handmade.plan.passes.push_back(pass);
    handmade.plan.passes.back().name = of_pass.name;
  }
  return handmade;
}

TEST(LaterGroupsTest, ASequenceOnAnotherRankThanInTheFirstPassIsReported) {
  HandmadePlan handmade = ThreeAlike();
  ExpectAccepted(handmade);
  handmade.plan.passes[1].sequence_index = {0, 2, 1};
  ExpectViolation(handmade, "passes[1] has sequence 1 on rank 1, but passes[0] has it on rank 0");
}

TEST(LaterGroupsTest, ASequenceOnMoreRanksThanInTheFirstPassIsReported) {
  HandmadePlan handmade = ThreeAlike();
  handmade.plan.passes[1].sequence_index = {1, 0, 2};
  ExpectViolation(handmade, "passes[1] has sequence 0 on 1 ranks, but passes[0] has it on 2");
}

TEST(GroupRowsTest, RowsThatAreAsWideAsAskedMayBeAsTheyAre) {
  HandmadePlan handmade = TwoSlots();
  OptionsOf(handmade).rows = RowPadding::kLongest;
  ExpectAccepted(handmade);
  // Buckets of 6 and 8 tokens for one rank are 24 and 32 for four.
  OptionsOf(handmade).rows = RowPadding::kBuckets;
  OptionsOf(handmade).buckets = {12, 16};
  ExpectAccepted(handmade);
}

// Each rank of a group has a share of the row's tail: 8 / 4 in the first slot, 4 / 2 in the second.
TEST(GroupRowsTest, TheTailIsPartOfWhatAGroupCosts) {
  HandmadePlan handmade = TwoSlots();
  OptionsOf(handmade).rows = RowPadding::kCapacity;
  PassOf(handmade).row_widths = {32, 16, 8, 8};
  PlanMetrics& metrics = MetricsOf(handmade);
  metrics.scheduled_tokens = 64;
  metrics.padding_removed = 0.36;
  // The ranks cost 19 + 13 and 19 + 10.
  metrics.rank_cost_imbalance = 32 / 30.5;
  metrics.predicted_step_time = 19 + 13;
  metrics.step_efficiency = 16.0 / 32;
  PassOf(handmade).decisions[0].tried = {{2, 32}};
  ExpectAccepted(handmade);
  metrics.predicted_step_time = 28;
  ExpectViolation(handmade, "passes[0].metrics.predicted_step_time is 28, but the plan has 32");
  metrics.predicted_step_time = 32;
  PassOf(handmade).row_widths[2] = 16;
  ExpectViolation(handmade, "passes[0].row_widths[2] is 16, but row padding gives 8");
}

// Free ranks begin their next group before others of the slot have ended.
TEST(GroupTimesTest, AccumulatedGroupsWaitForTheirOwnRanksAlone) {
  HandmadePlan handmade = TwoSlots();
  handmade.options.synchronization = Synchronization::kAccumulated;
  PassPlan& pass = PassOf(handmade);
  pass.sequence_index = {4, 3, 1, 2, 0};
  pass.sequence_lengths = {12, 8, 5, 3, 20};
  pass.microbatch_offsets = {0, 1, 2, 4, 5};
  pass.row_widths = {12, 8, 8, 24};
  pass.context_sizes = {2, 1, 1, 4};
  // The group of four waits until 11 for the slowest of its ranks.
  ExpectAccepted(handmade);
  MetricsOf(handmade).predicted_step_time = 27;
  ExpectViolation(handmade, "passes[0].metrics.predicted_step_time is 27, but the plan has 28");
}

}  // namespace
}  // namespace batchplan::testing
