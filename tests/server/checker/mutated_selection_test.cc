// A valid plan of a selection, spoilt in every way.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/server/checker/handmade_plan.h"
#include "tests/server/checker/verdict.h"

namespace batchplan::testing {
namespace {

// Four groups of two wait. The first is too old, the second must be taken now, and the fourth
// passes the third.
HandmadePlan TwoOfFourGroups() {
  HandmadePlan handmade;
  handmade.lengths = {5, 8, 3, 12, 1, 4, 7, 2};
  handmade.group_ids = {1, 1, 2, 2, 3, 3, 4, 4};
  handmade.ages = {4, 0, 0, 3, 0, 0, 0, 1};
  handmade.options.topology.data_parallel = 2;
  handmade.options.passes = {PackedPass("train", 20)};
  handmade.options.selection = {.groups = 2, .max_age = 3, .max_overtaking = 1};
  handmade.plan.excluded = {{0, 5, ExclusionReason::kExpired}, {1, 8, ExclusionReason::kExpired}};
  handmade.plan.deferred = {4, 5};
  handmade.AddPass({{{{{3, 2}, 15}}, {{{6, 7}, 9}}}}, 1);
  return handmade;
}

class MutatedSelectionTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(MutatedSelectionTest, IsReportedByName) {
  HandmadePlan handmade = TwoOfFourGroups();
  ASSERT_TRUE(handmade.Check().ok()) << handmade.Check();
  GetParam().apply(handmade);
  ExpectViolation(handmade, GetParam().violation);
}

INSTANTIATE_TEST_SUITE_P(
    Deferred, MutatedSelectionTest,
    ::testing::Values(
        Mutation{"WithoutSelection", [](HandmadePlan& p) { p.options.selection.reset(); },
                 "deferred has 2 entries, but selection is not set"},
        Mutation{"OutOfRange", [](HandmadePlan& p) { p.plan.deferred[1] = 8; },
                 "deferred[1] is 8, but there are 8 sequences"},
        Mutation{"NotAscending",
                 [](HandmadePlan& p) { std::swap(p.plan.deferred[0], p.plan.deferred[1]); },
                 "deferred[1] is 4, not above the one before it"},
        Mutation{"Expired", [](HandmadePlan& p) { p.plan.deferred[0] = 1; },
                 "deferred[0] is 1, which is too old"},
        Mutation{"HalfAGroup", [](HandmadePlan& p) { p.plan.deferred.pop_back(); },
                 "sequence 5 is taken, but sequence 4 of the same group waits"},
        Mutation{"AlsoTaken", [](HandmadePlan& p) { PassOf(p).sequence_index[0] = 4; },
                 "passes[0].sequence_index[0] is 4, which is not taken"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Rules, MutatedSelectionTest,
    ::testing::Values(
        Mutation{"ForcedWaits",
                 [](HandmadePlan& p) {
                   p.plan.deferred = {2, 3};
                 },
                 "sequence 2 waits, but is of age 3, selection.max_age"},
        Mutation{
            "PassedByTooMany", [](HandmadePlan& p) { p.options.selection->max_overtaking = 0; },
            "sequence 4 waits, but is passed by 1 behind it, above selection.max_overtaking 0"},
        Mutation{"TooFewGroups", [](HandmadePlan& p) { p.options.selection->groups = 3; },
                 "2 groups are taken, but selection.groups is 3"},
        Mutation{"TooFewSequences",
                 [](HandmadePlan& p) {
                   p.options.selection->groups = 0;
                   p.options.selection->sequences = 5;
                 },
                 "4 sequences are taken, but selection.sequences is 5"},
        Mutation{"TooManyTokens",
                 [](HandmadePlan& p) {
                   p.options.selection->groups = 0;
                   p.options.selection->max_tokens = 23;
                 },
                 "24 tokens are taken, but selection.max_tokens is 23"},
        Mutation{"FewerThanTokensAllow",
                 [](HandmadePlan& p) {
                   p.options.selection->groups = 0;
                   p.options.selection->max_tokens = 29;
                 },
                 "2 are taken, but first in, first out takes 3 within selection.max_tokens 29"},
        Mutation{"TwoTargets", [](HandmadePlan& p) { p.options.selection->sequences = 4; },
                 "selection has not exactly one target"},
        Mutation{"AgesOfAnotherSize", [](HandmadePlan& p) { p.ages.pop_back(); },
                 "manifest.ages has 7 entries, but there are 8 sequences"},
        Mutation{"NoAges", [](HandmadePlan& p) { p.ages.clear(); },
                 "selection.max_age is 3, but there are no ages"},
        Mutation{"NoGroups", [](HandmadePlan& p) { p.group_ids.clear(); },
                 "selection.groups is 2, but there are no groups"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Excluded, MutatedSelectionTest,
    ::testing::Values(
        Mutation{"ExpiredNotListed", [](HandmadePlan& p) { p.plan.excluded.pop_back(); },
                 "sequence 1 is too old, but not in excluded"},
        Mutation{"OtherReason",
                 [](HandmadePlan& p) { p.plan.excluded[0].reason = ExclusionReason::kDropped; },
                 "excluded[0] has length 5 and reason 2, but sequence 0 has 5 and 3"},
        Mutation{"OtherLength", [](HandmadePlan& p) { p.plan.excluded[0].length = 6; },
                 "excluded[0] has length 6 and reason 3, but sequence 0 has 5 and 3"},
        Mutation{"NotTooOld",
                 [](HandmadePlan& p) {
                   p.plan.excluded.push_back({2, 3, ExclusionReason::kExpired});
                 },
                 "excluded[2] is sequence 2, which is taken"},
        Mutation{"ListedTwice",
                 [](HandmadePlan& p) { p.plan.excluded.push_back(p.plan.excluded.back()); },
                 "excluded[2].index is 1, out of range or not above the one before it"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Metrics, MutatedSelectionTest,
    ::testing::Values(Mutation{"LengthTaken",
                               [](HandmadePlan& p) { MetricsOf(p).mean_length_taken = 5; },
                               "passes[0].metrics.mean_length_taken is 5, but the plan has 6"},
                      Mutation{"LengthDeferred",
                               [](HandmadePlan& p) { MetricsOf(p).mean_length_deferred = 2; },
                               "passes[0].metrics.mean_length_deferred is 2, but the plan has 2.5"},
                      Mutation{"Age", [](HandmadePlan& p) { MetricsOf(p).mean_age = 0; },
                               "passes[0].metrics.mean_age is 0, but the plan has 1"},
                      Mutation{"LargestAge", [](HandmadePlan& p) { MetricsOf(p).largest_age = 4; },
                               "passes[0].metrics.largest_age is 4, but the plan has 3"}),
    NameOf);

// Moves to other mini-batches, with max_delay.
TEST(MutatedDelayTest, IsReportedByName) {
  HandmadePlan handmade;
  handmade.lengths = {4, 1, 4, 1};
  handmade.options.topology.data_parallel = 2;
  handmade.options.mini_batches = {.size = 2, .max_delay = 1};
  handmade.options.passes = {PackedPass("train", 8)};
  handmade.AddPass({{{{{0}, 4}}, {{{2}, 4}}}, {{{{1}, 1}}, {{{3}, 1}}}}, 1);
  MetricsOf(handmade).moved_share = 0.5;
  MetricsOf(handmade).mean_delay = 0.25;
  ExpectAccepted(handmade);
  HandmadePlan spoilt = handmade;
  MetricsOf(spoilt).moved_share = 0.25;
  ExpectViolation(spoilt, "passes[0].metrics.moved_share is 0.25, but the plan has 0.5");
  spoilt = handmade;
  MetricsOf(spoilt).mean_delay = 0.5;
  ExpectViolation(spoilt, "passes[0].metrics.mean_delay is 0.5, but the plan has 0.25");
  spoilt = handmade;
  spoilt.options.mini_batches.max_delay = 0;
  ExpectViolation(
      spoilt, "passes[0] has sequence 1 in mini-batch 1, but the manifest's order puts it into");
}

TEST(MutatedDelayTest, EarlierIsFreeAndLaterIsNot) {
  HandmadePlan handmade;
  handmade.lengths = {1, 1, 1, 1, 1, 1};
  handmade.options.topology.data_parallel = 2;
  handmade.options.mini_batches = {.size = 2, .max_delay = 1};
  handmade.options.passes = {PackedPass("train", 8)};
  HandmadePlan late = handmade;
  handmade.AddPass({{{{{1}, 1}}, {{{4}, 1}}}, {{{{0}, 1}}, {{{3}, 1}}}, {{{{2}, 1}}, {{{5}, 1}}}},
                   1);
  MetricsOf(handmade).moved_share = 0.5;
  MetricsOf(handmade).mean_delay = 1.0 / 3;
  ExpectAccepted(handmade);
  late.AddPass({{{{{1}, 1}}, {{{2}, 1}}}, {{{{3}, 1}}, {{{4}, 1}}}, {{{{0}, 1}}, {{{5}, 1}}}}, 1);
  ExpectViolation(late,
                  "passes[0] has sequence 0 in mini-batch 2, but the manifest's order puts it into "
                  "mini-batch 0, and max_delay is 1");
}

}  // namespace
}  // namespace batchplan::testing
