// Valid plans with loads, spoilt in every way.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

constexpr size_t kMemory = 0;
constexpr size_t kFrames = 1;
constexpr size_t kPatches = 2;
constexpr size_t kLogits = 3;

// Memory is limited, frames have a phase, patches are dealt and limited, logits are part of rows.
// Sequences 1 and 4 are not text.
HandmadePlan LoadedRequest() {
  HandmadePlan handmade;
  handmade.lengths = {5, 8, 3, 12, 1, 4, 7, 2};
  handmade.kinds = {0, 1, 0, 0, 2, 0, 0, 0};
  handmade.loads = {{.name = "memory", .values = {4, 3, 2, 5, 1, 2, 3, 6}},
                    {.name = "frames", .values = {1, 0, 2, 0, 3, 0, 0, 1}},
                    {.name = "patches",
                     .values = {9, 4, 4, 5, 2, 4, 1},
                     .has_items = true,
                     .sequences = {0, 0, 1, 3, 4, 6, 6}},
                    {.name = "logits", .values = {5, 8, 3, 12, 1, 4, 7, 2}}};
  handmade.options.topology = {.data_parallel = 2, .context_parallel = 2};
  handmade.options.cost_model.loads = {{.load = "logits", .per_unit = 0.5},
                                       {.load = "patches", .per_unit = 3, .dealt = true},
                                       {.load = "frames", .per_unit = 2, .separate = true}};
  PassOptions train = PackedPass("train", 24);
  train.limits = {{"memory", 7}, {"patches", 12}};
  train.kinds_per_slot = KindsPerSlot::kTogether;
  handmade.options.passes = {train};
  return handmade;
}

// Micro-batches have 7, 7, 6 and 6 of memory. In the first slot, rank 0 gets patches of 9, 2 and 1,
// and rank 1 three times 4. In the second, rank 0 gets the only patches, 5.
HandmadePlan Loaded() {
  HandmadePlan handmade = LoadedRequest();
  handmade.AddPass({{{{{0, 1}, 16}, {{2, 3}, 16}}, {{{4, 5, 6}, 16}, {{7}, 4}}}}, 4);
  return handmade;
}

std::vector<uint32_t>& RanksOf(HandmadePlan& handmade) {
  return PassOf(handmade).item_ranks[0].ranks;
}
LoadMetrics& LoadOf(HandmadePlan& handmade, size_t load) { return MetricsOf(handmade).loads[load]; }

class MutatedLoadsTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutatedLoadsTest, AreReportedByName) {
  HandmadePlan handmade = Loaded();
  ASSERT_TRUE(handmade.Check().ok()) << handmade.Check();
  GetParam().apply(handmade);
  ExpectViolation(handmade, "plan check: " + GetParam().violation);
}

INSTANTIATE_TEST_SUITE_P(
    Limits, MutatedLoadsTest,
    ::testing::Values(
        Mutation{"Lower", [](HandmadePlan& p) { OptionsOf(p).limits[0].max_per_microbatch = 6.5; },
                 "passes[0] micro-batch 0 has 7 of load \"memory\", above max_per_microbatch 6.5"},
        Mutation{"LowerByMoreThanRounding",
                 [](HandmadePlan& p) { OptionsOf(p).limits[0].max_per_microbatch = 7 - 14e-9; },
                 "passes[0] micro-batch 0 has 7 of load \"memory\", above max_per_microbatch 7"},
        Mutation{"OneSequenceHasMore", [](HandmadePlan& p) { p.loads[kMemory].values[3] = 5.5; },
                 "passes[0] micro-batch 1 has 7.5 of load \"memory\", above max_per_microbatch 7"},
        Mutation{"OneSequenceMoved",
                 [](HandmadePlan& p) {
                   PassOf(p).microbatch_offsets[1] = 3;
                   PassOf(p).row_widths[0] = 20;
                   PassOf(p).row_widths[1] = 12;
                 },
                 "passes[0] micro-batch 0 has 9 of load \"memory\", above max_per_microbatch 7"},
        Mutation{"LimitOfTheLoadBeside",
                 [](HandmadePlan& p) {
                   OptionsOf(p).limits[0].load = "frames";
                   OptionsOf(p).limits[0].max_per_microbatch = 2.5;
                   p.options.overlong = OverlongPolicy::kAlone;
                 },
                 "excluded does not list sequence 4 of 1 tokens"},
        Mutation{"OfARankOfTheDeal",
                 [](HandmadePlan& p) { OptionsOf(p).limits[1].max_per_microbatch = 11.5; },
                 "passes[0] slot 0 of mini-batch 0 has 12 of load \"patches\" on rank 0, above "
                 "max_per_microbatch 11.5"},
        Mutation{"OfTheOtherRankOfTheDeal",
                 [](HandmadePlan& p) {
                   OptionsOf(p).limits[1].max_per_microbatch = 11.5;
                   p.loads[kPatches].values[6] = 0;
                 },
                 "passes[0] slot 0 of mini-batch 0 has 12 of load \"patches\" on rank 1, above "
                 "max_per_microbatch 11.5"},
        Mutation{"OneAloneHasMore", [](HandmadePlan& p) { p.loads[kMemory].values[7] = 7.5; },
                 "sequence 7 has more of a load than a limit allows, and is neither"},
        Mutation{"OneAloneHasMoreThanTruncationCuts",
                 [](HandmadePlan& p) {
                   p.options.overlong = OverlongPolicy::kTruncate;
                   p.loads[kMemory].values[7] = 7.5;
                 },
                 "sequence 7 has more of a load than a limit allows, and is neither"},
        Mutation{"OneAloneHasMoreAndIsNotListed",
                 [](HandmadePlan& p) {
                   p.options.overlong = OverlongPolicy::kAlone;
                   p.loads[kMemory].values[7] = 7.5;
                 },
                 "excluded does not list sequence 7 of 2 tokens"},
        Mutation{"OneWithCompanyHasMore",
                 [](HandmadePlan& p) {
                   p.options.overlong = OverlongPolicy::kAlone;
                   p.plan.excluded = {{0, 5, ExclusionReason::kAlone}};
                   p.loads[kMemory].values[0] = 7.5;
                   p.loads[kMemory].values[1] = 0;
                 },
                 "passes[0] micro-batch 0 has 7.5 of load \"memory\", above"},
        Mutation{"AnItemHasMore",
                 [](HandmadePlan& p) { OptionsOf(p).limits[1].max_per_microbatch = 8; },
                 "sequence 0 has more of a load than a limit allows, and is neither"},
        Mutation{"ListedWithoutCause",
                 [](HandmadePlan& p) {
                   p.options.overlong = OverlongPolicy::kAlone;
                   p.plan.excluded = {{7, 2, ExclusionReason::kAlone}};
                 },
                 "excluded[0] lists sequence 7, which the overlong policy does not touch"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Deal, MutatedLoadsTest,
    ::testing::Values(
        Mutation{"NoRanks", [](HandmadePlan& p) { PassOf(p).item_ranks.clear(); },
                 "passes[0].item_ranks has 0 entries, but 1 loads are dealt"},
        Mutation{"RanksOfTwo",
                 [](HandmadePlan& p) {
                   PassOf(p).item_ranks.push_back({.load = "frames", .ranks = {}});
                 },
                 "passes[0].item_ranks has 2 entries, but 1 loads are dealt"},
        Mutation{"RanksOfAnother", [](HandmadePlan& p) { PassOf(p).item_ranks[0].load = "frames"; },
                 "passes[0].item_ranks[0].load is \"frames\", but load 0 of those that are dealt "
                 "is \"patches\""},
        Mutation{"OneTooFew", [](HandmadePlan& p) { RanksOf(p).pop_back(); },
                 "passes[0].item_ranks[0].ranks has 6 entries, but load \"patches\" has 7 items"},
        Mutation{"OneTooMany", [](HandmadePlan& p) { RanksOf(p).push_back(0); },
                 "passes[0].item_ranks[0].ranks has 8 entries, but load \"patches\" has 7 items"},
        Mutation{"Exchanged", [](HandmadePlan& p) { std::swap(RanksOf(p)[0], RanksOf(p)[1]); },
                 "passes[0].item_ranks[0].ranks[0] is 1, but of passes[0] slot 0 of mini-batch 0 "
                 "rank 0 gets the item of 9"},
        Mutation{"ExchangedSmallOnes",
                 [](HandmadePlan& p) { std::swap(RanksOf(p)[5], RanksOf(p)[6]); },
                 "passes[0].item_ranks[0].ranks[5] is 0, but of passes[0] slot 0 of mini-batch 0 "
                 "rank 1 gets the item of 4"},
        Mutation{"MirroredAndAsEven",
                 [](HandmadePlan& p) {
                   for (uint32_t& rank : RanksOf(p)) rank = 1 - rank;
                 },
                 "passes[0].item_ranks[0].ranks[0] is 1, but"},
        Mutation{"AloneOnTheHigherRank", [](HandmadePlan& p) { RanksOf(p)[3] = 1; },
                 "passes[0].item_ranks[0].ranks[3] is 1, but of passes[0] slot 1 of mini-batch 0 "
                 "rank 0 gets the item of 5"},
        Mutation{"NoSuchRank", [](HandmadePlan& p) { RanksOf(p)[4] = 2; },
                 "passes[0].item_ranks[0].ranks[4] is 2, but"},
        Mutation{"NoRankAtAll", [](HandmadePlan& p) { RanksOf(p)[4] = UINT32_MAX; },
                 "passes[0].item_ranks[0].ranks[4] is 4294967295, but"},
        Mutation{"OfOtherItems", [](HandmadePlan& p) { p.loads[kPatches].values[5] = 9.5; },
                 "passes[0].item_ranks[0].ranks[5] is 1, but of passes[0] slot 0 of mini-batch 0 "
                 "rank 0 gets the item of 9.5"},
        Mutation{"OfEqualItemsTheLaterFirst",
                 [](HandmadePlan& p) {
                   p.loads[kPatches].values = {9, 9, 4, 5, 2, 4, 1};
                   RanksOf(p) = {1, 0, 0, 0, 0, 1, 0};
                 },
                 "passes[0].item_ranks[0].ranks[0] is 1, but"},
        Mutation{"NotDealt",
                 [](HandmadePlan& p) {
                   p.options.cost_model.loads[1].dealt = false;
                   p.options.cost_model.loads[1].separate = true;
                   OptionsOf(p).limits.pop_back();
                   p.plan.cost_model_used = p.options.cost_model;
                 },
                 "passes[0].item_ranks has 1 entries, but 0 loads are dealt"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Kinds, MutatedLoadsTest,
    ::testing::Values(
        Mutation{"OneRankOfASlotHasText", [](HandmadePlan& p) { p.kinds[4] = 0; },
                 "passes[0] slot 0 of mini-batch 0 has sequences of kind 1, but a micro-batch of "
                 "kind 0 alone"},
        Mutation{"OneRankOfASlotHasNoText", [](HandmadePlan& p) { p.kinds[7] = 3; },
                 "passes[0] slot 1 of mini-batch 0 has sequences of kind 3, but a micro-batch of "
                 "kind 0 alone"},
        Mutation{"Alike",
                 [](HandmadePlan& p) { OptionsOf(p).kinds_per_slot = KindsPerSlot::kAlike; },
                 "passes[0] slot 0 of mini-batch 0 has sequences of kinds 0 and 2, but all must "
                 "be of one"},
        Mutation{"AlikeButOne",
                 [](HandmadePlan& p) {
                   OptionsOf(p).kinds_per_slot = KindsPerSlot::kAlike;
                   p.kinds = {2, 2, 0, 0, 2, 2, 2, 1};
                 },
                 "passes[0] slot 1 of mini-batch 0 has sequences of kinds 0 and 1, but all"},
        Mutation{"OfAnotherSize", [](HandmadePlan& p) { p.kinds.pop_back(); },
                 "manifest.kinds has 7 entries, but there are 8 sequences"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Metrics, MutatedLoadsTest,
    ::testing::Values(
        Mutation{"None", [](HandmadePlan& p) { MetricsOf(p).loads.clear(); },
                 "passes[0].metrics.loads has 0 entries, but there should be 4"},
        Mutation{"OneTooMany", [](HandmadePlan& p) { MetricsOf(p).loads.emplace_back(); },
                 "passes[0].metrics.loads has 5 entries, but there should be 4"},
        Mutation{"OtherOrder",
                 [](HandmadePlan& p) { std::swap(LoadOf(p, kMemory), LoadOf(p, kFrames)); },
                 "passes[0].metrics.loads[0].load is \"frames\", but the manifest says "
                 "\"memory\""},
        Mutation{"Largest", [](HandmadePlan& p) { LoadOf(p, kMemory).largest = 6; },
                 "passes[0].metrics.loads[0].largest is 6, but the plan has 7"},
        Mutation{"LargestWhereTheItemsCameFrom",
                 [](HandmadePlan& p) { LoadOf(p, kPatches).largest = 17; },
                 "passes[0].metrics.loads[2].largest is 17, but the plan has 12"},
        Mutation{"Mean", [](HandmadePlan& p) { LoadOf(p, kFrames).mean = 3.5; },
                 "passes[0].metrics.loads[1].mean is 3.5, but the plan has 1.75"},
        Mutation{"ImbalanceOfRanks", [](HandmadePlan& p) { LoadOf(p, kLogits).rank_imbalance = 1; },
                 "passes[0].metrics.loads[3].rank_imbalance is 1, but the plan has 1.33333"},
        Mutation{"ImbalanceWhereTheItemsCameFrom",
                 [](HandmadePlan& p) { LoadOf(p, kPatches).rank_imbalance = 44 / 29.0; },
                 "passes[0].metrics.loads[2].rank_imbalance is 1.51724, but the plan has 1.17241"},
        Mutation{"TimeOfAPhase", [](HandmadePlan& p) { LoadOf(p, kFrames).separate_time = 4; },
                 "passes[0].metrics.loads[1].separate_time is 4, but the plan has 5"},
        Mutation{"TimeOfTheDeal", [](HandmadePlan& p) { LoadOf(p, kPatches).separate_time = 33; },
                 "passes[0].metrics.loads[2].separate_time is 33, but the plan has 25.5"},
        Mutation{"TimeWithoutAPhase", [](HandmadePlan& p) { LoadOf(p, kLogits).separate_time = 1; },
                 "passes[0].metrics.loads[3].separate_time is 1, but the plan has 0"},
        Mutation{"NotANumber", [](HandmadePlan& p) { LoadOf(p, kMemory).mean = std::nan(""); },
                 "passes[0].metrics.loads[0].mean is nan, but the plan has 6.5"},
        Mutation{"StepWithoutPhases",
                 [](HandmadePlan& p) { MetricsOf(p).predicted_step_time -= 30.5; },
                 "passes[0].metrics.predicted_step_time is"},
        Mutation{"IdealStepWithoutDealtLoads",
                 [](HandmadePlan& p) { MetricsOf(p).ideal_step_time -= 3 * 29 / 4.0; },
                 "passes[0].metrics.ideal_step_time is"},
        Mutation{"DealtCostsWhereTheItemsCameFrom",
                 [](HandmadePlan& p) { MetricsOf(p).rank_cost_imbalance += 0.01; },
                 "passes[0].metrics.rank_cost_imbalance is"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    CostModel, MutatedLoadsTest,
    ::testing::Values(
        Mutation{"WithoutLoads", [](HandmadePlan& p) { p.plan.cost_model_used.loads.clear(); },
                 "cost_model_used.loads is none, but the request says logits:0.5 patches:3 dealt "
                 "frames:2 separate"},
        Mutation{"OtherCost",
                 [](HandmadePlan& p) { p.plan.cost_model_used.loads[0].per_unit = 0.25; },
                 "cost_model_used.loads is logits:0.25"},
        Mutation{"Negative", [](HandmadePlan& p) { p.plan.cost_model_used.loads[0].per_unit = -1; },
                 "cost_model_used.loads has the coefficient -1"},
        Mutation{"OtherPhases",
                 [](HandmadePlan& p) { p.plan.cost_model_used.loads[2].separate = false; },
                 "cost_model_used.loads is logits:0.5 patches:3 dealt frames:2, but"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Manifest, MutatedLoadsTest,
    ::testing::Values(
        Mutation{"ValuesOfAnotherSize", [](HandmadePlan& p) { p.loads[kMemory].values.pop_back(); },
                 "manifest.loads[0].values has 7 entries, but there are 8 sequences"},
        Mutation{"Negative", [](HandmadePlan& p) { p.loads[kMemory].values[2] = -1; },
                 "manifest.loads[0].values[2] is -1"},
        Mutation{"NotANumber", [](HandmadePlan& p) { p.loads[kMemory].values[2] = std::nan(""); },
                 "manifest.loads[0].values[2] is nan"},
        Mutation{"BeyondNumbers",
                 [](HandmadePlan& p) {
                   p.loads[kPatches].values.assign(7, std::numeric_limits<double>::max());
                 },
                 "manifest.items[0].values[1] is 1.79769e+308, and the values up to it add up to "
                 "inf"},
        Mutation{"NameTwice", [](HandmadePlan& p) { p.loads[kFrames].name = "memory"; },
                 "manifest.loads[1].name is that of an earlier load"},
        Mutation{"NameEmpty", [](HandmadePlan& p) { p.loads[kFrames].name.clear(); },
                 "manifest.loads[1].name has 0 bytes, outside 1 .. 64"},
        Mutation{"NameTooLong", [](HandmadePlan& p) { p.loads[kFrames].name.assign(65, 'a'); },
                 "manifest.loads[1].name has 65 bytes, outside 1 .. 64"},
        Mutation{"TooMany", [](HandmadePlan& p) { p.loads.resize(9); },
                 "manifest.loads has 9 entries, above 8"},
        Mutation{"ItemsOutOfRange", [](HandmadePlan& p) { p.loads[kPatches].sequences[6] = 8; },
                 "manifest.items[0].sequences[6] is 8, out of range or below the one before it"},
        Mutation{"ItemsDescend", [](HandmadePlan& p) { p.loads[kPatches].sequences[6] = 5; },
                 "manifest.items[0].sequences[6] is 5, out of range or below the one before it"},
        Mutation{"ItemsOfTwoSizes", [](HandmadePlan& p) { p.loads[kPatches].sequences.pop_back(); },
                 "manifest.items[0].sequences has 6 entries, but values 7"},
        Mutation{"CostOfNoLoad",
                 [](HandmadePlan& p) { p.options.cost_model.loads[0].load = "audio"; },
                 "cost_model.loads[0] is of no load"},
        Mutation{"CostTwice",
                 [](HandmadePlan& p) { p.options.cost_model.loads[2].load = "logits"; },
                 "cost_model.loads[2] is of a load again"},
        Mutation{"DealtWithoutItems",
                 [](HandmadePlan& p) { p.options.cost_model.loads[2].dealt = true; },
                 "cost_model.loads[2] is dealt, but the load has no items"},
        Mutation{"PhasesOnPipelines",
                 [](HandmadePlan& p) { p.options.topology.pipeline_parallel = 2; },
                 "cost_model.loads[1] has a phase of its own, but pipelines have none"},
        Mutation{"CostsOfPaddedRows",
                 [](HandmadePlan& p) { OptionsOf(p).layout = Layout::kPadded; },
                 "cost_model.loads is set, but passes[0] is padded"},
        Mutation{"CostsWithDynamicContext",
                 [](HandmadePlan& p) { p.options.topology.dynamic_context.emplace(); },
                 "cost_model.loads is set, but groups of ranks are to differ"},
        Mutation{"LimitsWithDynamicContext",
                 [](HandmadePlan& p) {
                   p.options.cost_model.loads.clear();
                   p.options.topology.dynamic_context.emplace();
                 },
                 "passes[0] limits loads or kinds, but groups of ranks are to differ"},
        Mutation{"LimitOfNoLoad", [](HandmadePlan& p) { OptionsOf(p).limits[1].load = "audio"; },
                 "passes[0].limits[1] is of no load, of one again, or 12"},
        Mutation{"LimitTwice", [](HandmadePlan& p) { OptionsOf(p).limits[1].load = "memory"; },
                 "passes[0].limits[1] is of no load, of one again, or 12"},
        Mutation{"LimitOfNothing",
                 [](HandmadePlan& p) { OptionsOf(p).limits[0].max_per_microbatch = 0; },
                 "passes[0].limits[0] is of no load, of one again, or 0"}),
    NameOf);

}  // namespace
}  // namespace batchplan::testing
