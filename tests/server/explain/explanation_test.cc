// Plans whose waiting has a known cause: which one is named, and how much of the step it is.

#include "server/explain/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"

namespace batchplan {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeCheckedPlan;
using testing::PackedOptions;
using ::testing::SizeIs;

// Costs are tokens, so that times can be worked out by hand.
PlanOptions OnRanks(uint32_t budget, uint32_t ranks) {
  PlanOptions options = PackedOptions(budget, Packer::kBalanced, ranks, Sharding::kBalanced);
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  return options;
}

Explanation ExplanationOf(const Manifest& manifest, const PlanOptions& options) {
  const absl::StatusOr<Plan> plan = MakeCheckedPlan(manifest, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const absl::StatusOr<std::vector<Explanation>> explanations = Explain(manifest, options, *plan);
  EXPECT_TRUE(explanations.ok()) << explanations.status();
  if (!explanations.ok()) return {};
  for (const Explanation& explanation : *explanations) {
    double sum = 0;
    for (const ExplainedTime& one : explanation.causes) sum += one.time;
    EXPECT_NEAR(sum, explanation.predicted_step_time - explanation.ideal_step_time,
                1e-6 * explanation.predicted_step_time);
  }
  return explanations->front();
}

Explanation ExplanationOf(const std::vector<uint32_t>& lengths, const PlanOptions& options) {
  return ExplanationOf(Manifest{.lengths = lengths}, options);
}

::testing::Matcher<ExplainedTime> Of(Cause cause, double time, bool in_any_plan = true) {
  return ::testing::AllOf(
      ::testing::Field("cause", &ExplainedTime::cause, cause),
      ::testing::Field("time", &ExplainedTime::time, DoubleNear(time, 1e-6 * (1 + time))),
      ::testing::Field("in_any_plan", &ExplainedTime::in_any_plan, in_any_plan));
}

TEST(ExplanationTest, EvenRanksWaitForNothing) {
  const Explanation even = ExplanationOf({100, 100, 100, 100}, OnRanks(100, 4));
  EXPECT_THAT(even.causes, SizeIs(0));
  EXPECT_THAT(even.sentences,
              ElementsAre("All ranks are busy from the step's beginning to its end.",
                          "No plan for this request is shorter."));
}

// 400 tokens are 200 a rank, but one sequence has 250.
TEST(ExplanationTest, TheLongestSequenceTakesLongerThanAnEvenShare) {
  const Explanation longest = ExplanationOf({250, 50, 50, 50}, OnRanks(400, 2));
  EXPECT_THAT(longest.causes, ElementsAre(Of(Cause::kLongestSequence, 50)));
  EXPECT_THAT(longest.lone_sequences, SizeIs(1));
  EXPECT_EQ(longest.lone_sequences[0].sequence, 0u);
  EXPECT_EQ(longest.lone_sequences[0].length, 250u);
  EXPECT_NEAR(longest.lone_sequences[0].waiting, 50, 1e-6);
  EXPECT_THAT(longest.sentences,
              ElementsAre("20.0% of the step is beyond what its work takes, evenly on all ranks.",
                          "20.0% in any plan, as sequence 0 (250 tokens) takes longer by itself "
                          "than an even share of all work.",
                          "No plan for this request is shorter."));
}

// Three of 100 tokens on two ranks: two are on one of them.
TEST(ExplanationTest, FewSequencesCannotBeDividedEvenly) {
  const Explanation few = ExplanationOf({100, 100, 100}, OnRanks(400, 2));
  EXPECT_THAT(few.causes, ElementsAre(Of(Cause::kFewSequences, 50)));
}

// Costs are squares. 2500 tokens^2 are to be done beside the 10000 of the longest, on the other
// rank; but a micro-batch holds just two of 50, so that all others are in slots of their own.
TEST(ExplanationTest, TheBudgetMakesSlots) {
  PlanOptions options = OnRanks(100, 2);
  options.cost_model = {.per_token = 0, .per_token_squared = 1};
  const std::vector<uint32_t> lengths = {100, 50, 50, 50, 50, 50, 50};
  const Explanation slots = ExplanationOf(lengths, options);
  // 10000 beside 5000, and 5000 beside 5000; in one slot 10000 would be beside 15000.
  EXPECT_EQ(slots.predicted_step_time, 15000);
  EXPECT_EQ(slots.ideal_step_time, 12500);
  EXPECT_THAT(slots.causes, ElementsAre(Of(Cause::kBudget, 2500)));
  EXPECT_EQ(
      slots.sentences[1],
      "16.7% in any plan, as 100 tokens a micro-batch make 2 slots or more, each as long as its "
      "costliest micro-batch, with twice as many tokens maybe none.");
  EXPECT_EQ(
      slots.sentences[2],
      "1 of 2 slots lasts as long as one sequence alone, which ranks wait 16.7% of the step for: "
      "sequence 0 (100 tokens).");
}

TEST(ExplanationTest, TheSequenceLimitMakesSlots) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].max_sequences_per_microbatch = 1;
  // Slots of 90 and 30; without the limit 90 are beside the other three.
  const Explanation limit = ExplanationOf({90, 40, 30, 20}, options);
  EXPECT_THAT(limit.causes, ElementsAre(Of(Cause::kSequenceLimit, 30)));
  EXPECT_THAT(limit.sentences[1], HasSubstr("no more than 1 sequence"));
}

// Sequences of 3, 1, 2 and 2 are 4 a rank in one slot. In two slots each micro-batch is one of
// them.
TEST(ExplanationTest, TheMinimumOfMicrobatchesMakesSlots) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].min_microbatches = 2;
  const Explanation minimum = ExplanationOf({300, 100, 200, 200}, options);
  EXPECT_THAT(minimum.causes, ElementsAre(Of(Cause::kMicrobatchCounts, 100)));
  EXPECT_EQ(minimum.lower_bound_step_time, 500);
  EXPECT_EQ(minimum.sentences.back(), "No plan for this request is shorter.");
}

TEST(ExplanationTest, MicrobatchesThatAMultipleAsksForAreWorkOfTheIdealStep) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].microbatch_count_multiple = 4;
  options.cost_model.per_microbatch = 10;
  const std::vector<uint32_t> lengths(8, 100);
  const Explanation multiple = ExplanationOf(lengths, options);
  EXPECT_THAT(multiple.causes, SizeIs(0));
  EXPECT_NEAR(multiple.required_microbatches, 30, 1e-6);
  EXPECT_THAT(multiple.sentences, ::testing::Contains(HasSubstr("the multiple of 4")));
}

// Micro-batches of two: 90 is beside 10 or more, and meets two others.
TEST(ExplanationTest, TheMultipleOfSequencesKeepsThemTogether) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].sequence_count_multiple = 2;
  const Explanation multiple = ExplanationOf({90, 10, 50, 20}, options);
  EXPECT_THAT(multiple.causes,
              ElementsAre(Of(Cause::kSequenceMultiple, 10), Of(Cause::kLongestSequence, 5)));
}

// One long sequence in each mini-batch: 100 beside 20 twice. Together, 100 beside 100.
TEST(ExplanationTest, MiniBatchesAreDividedByThemselves) {
  PlanOptions options = OnRanks(1000, 2);
  options.mini_batches.size = 2;
  const Explanation cut = ExplanationOf({100, 20, 100, 20}, options);
  EXPECT_THAT(cut.causes, ElementsAre(Of(Cause::kMiniBatches, 80)));
  EXPECT_THAT(cut.sentences[1], HasSubstr("each of 2 mini-batches is divided"));
}

TEST(ExplanationTest, GroupsStayOnOneRank) {
  PlanOptions options = OnRanks(1000, 2);
  options.mini_batches.groups = GroupPolicy::kSameRank;
  const std::vector<uint32_t> lengths = {100, 100, 100, 100};
  const std::vector<uint32_t> groups = {0, 0, 0, 1};
  const Explanation together =
      ExplanationOf(Manifest{.lengths = lengths, .group_ids = groups}, options);
  EXPECT_THAT(together.causes, ElementsAre(Of(Cause::kGroups, 100)));
}

TEST(ExplanationTest, TheManifestGivesRanks) {
  PlanOptions options = OnRanks(1000, 2);
  const std::vector<uint32_t> lengths = {100, 100, 100, 100};
  const std::vector<uint32_t> ranks = {0, 0, 0, 1};
  const Explanation given = ExplanationOf(Manifest{.lengths = lengths, .ranks = ranks}, options);
  EXPECT_THAT(given.causes, ElementsAre(Of(Cause::kGivenRanks, 100)));
}

// All together are even, but 100 tokens of each kind are beside 20 of the same.
TEST(ExplanationTest, KindsRunInSlotsOfTheirOwn) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].kinds_per_slot = KindsPerSlot::kAlike;
  const std::vector<uint32_t> lengths = {100, 20, 20, 100};
  const std::vector<uint32_t> kinds = {0, 0, 1, 1};
  Manifest manifest = {.lengths = lengths};
  manifest.kinds = kinds;
  EXPECT_THAT(ExplanationOf(manifest, options).causes, ElementsAre(Of(Cause::kKinds, 80)));
}

// Tokens and patches are even by themselves, but not on the same ranks: in phases, ranks wait for
// the most tokens and the most patches.
TEST(ExplanationTest, LoadsHavePhases) {
  PlanOptions options = OnRanks(1000, 2);
  options.cost_model.loads = {{.load = "patches", .per_unit = 1, .separate = true}};
  const std::vector<uint32_t> lengths = {100, 20};
  const std::vector<double> patches = {20, 100};
  const Explanation phases = ExplanationOf(
      Manifest{.lengths = lengths, .loads = {{.name = "patches", .values = patches}}}, options);
  EXPECT_THAT(phases.causes, ElementsAre(Of(Cause::kLoadPhases, 80)));
}

// 1F1B of two micro-batches through two stages: three times a micro-batch's share in place of two.
TEST(ExplanationTest, PipelinesHaveBubbles) {
  PlanOptions options = OnRanks(100, 1);
  options.topology.pipeline_parallel = 2;
  options.synchronization = Synchronization::kAccumulated;
  const Explanation bubbles = ExplanationOf({100, 100}, options);
  EXPECT_THAT(bubbles.causes, ElementsAre(Of(Cause::kBubbles, 50, /*in_any_plan=*/false)));
  options.pipeline.stage_shares = {0.6, 0.4};
  const Explanation unequal = ExplanationOf({100, 100}, options);
  EXPECT_THAT(unequal.causes, ::testing::Contains(Of(Cause::kStages, 20)));
}

TEST(ExplanationTest, RowsArePadded) {
  PlanOptions options = OnRanks(100, 2);
  options.passes[0].rows = RowPadding::kCapacity;
  const Explanation padded = ExplanationOf({80, 80}, options);
  EXPECT_THAT(padded.causes, ElementsAre(Of(Cause::kPadding, 20, /*in_any_plan=*/false)));
  EXPECT_EQ(padded.sentences.back(), "A better plan may exist, at most 20.0% shorter.");
}

TEST(ExplanationTest, ContextParallelRanksExchange) {
  PlanOptions options = OnRanks(100, 1);
  options.topology.context_parallel = 2;
  options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.5}};
  // 100 / 2 tokens a rank, and half of them received.
  const Explanation exchange = ExplanationOf({100}, options);
  EXPECT_THAT(exchange.causes, ElementsAre(Of(Cause::kExchange, 25, /*in_any_plan=*/false)));
}

// Four answers of 50 tokens to one prompt of 100, in two micro-batches: each has the prompt.
TEST(ExplanationTest, PrefixesAreRepeated) {
  PlanOptions options = OnRanks(300, 2);
  const std::vector<uint32_t> lengths(4, 150);
  const std::vector<uint32_t> prefixes = {0, 100, 100, 100};
  const std::vector<uint32_t> with(4, 0);
  const Explanation repeated = ExplanationOf(
      Manifest{.lengths = lengths, .shared_prefixes = prefixes, .shared_with = with}, options);
  EXPECT_THAT(repeated.causes,
              ElementsAre(Of(Cause::kRepeatedPrefixes, 50, /*in_any_plan=*/false)));
}

TEST(ExplanationTest, MicrobatchesBeyondTheFewestHaveAFixedCost) {
  PlanOptions options = OnRanks(200, 1);
  options.cost_model.per_microbatch = 7;
  const std::vector<uint32_t> lengths = {100, 100};
  absl::StatusOr<Plan> plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok());
  // The same in two micro-batches, as another planner might have it.
  PassPlan& pass = plan->passes[0];
  pass.microbatch_offsets = {0, 1, 2};
  pass.microbatches_per_rank = {2};
  pass.row_widths = {100, 100};
  pass.metrics.predicted_step_time += 7;
  const auto explanations = Explain({.lengths = lengths}, options, *plan);
  ASSERT_TRUE(explanations.ok());
  EXPECT_THAT(explanations->front().causes,
              ElementsAre(Of(Cause::kMoreSlots, 7, /*in_any_plan=*/false)));
}

// Nothing forces this plan: its bound is the even one.
TEST(ExplanationTest, WhatIsNotProvenIsUnexplained) {
  const PlanOptions options = OnRanks(1000, 2);
  const std::vector<uint32_t> lengths = {50, 60, 40, 50};
  absl::StatusOr<Plan> plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->passes[0].metrics.predicted_step_time, 100);
  PassPlan& pass = plan->passes[0];
  pass.sequence_index = {0, 1, 2, 3};
  pass.sequence_lengths = lengths;
  pass.microbatch_offsets = {0, 2, 4};
  pass.row_widths = {110, 90};
  pass.metrics.predicted_step_time = 110;
  const auto explanations = Explain({.lengths = lengths}, options, *plan);
  ASSERT_TRUE(explanations.ok());
  EXPECT_THAT(explanations->front().causes,
              ElementsAre(Of(Cause::kUnexplained, 10, /*in_any_plan=*/false)));
  EXPECT_EQ(explanations->front().sentences.back(),
            "9.1% has no proven cause: a better plan may exist, at most 9.1% shorter.");
}

// Whatever is asked: no part is negative, and together they are all.
TEST(ExplanationTest, GeneratedRequestsAreExplained) {
  int explained = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const testing::GeneratedRequest request = testing::GenerateRequest(seed);
    SCOPED_TRACE(request.Describe());
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    const auto explanations = Explain(request.manifest(), request.options, *plan);
    ASSERT_TRUE(explanations.ok()) << explanations.status();
    ++explained;
    for (const Explanation& explanation : *explanations) {
      const double predicted = explanation.predicted_step_time;
      double sum = 0;
      for (const ExplainedTime& one : explanation.causes) {
        EXPECT_GT(one.time, 0);
        sum += one.time;
      }
      EXPECT_NEAR(sum, predicted - explanation.ideal_step_time, 1e-6 * predicted);
      EXPECT_GE(explanation.sentences.size(), 2u);
    }
  }
  EXPECT_GT(explained, 500);
}

TEST(ExplanationTest, PlansThatDoNotFitAreRefused) {
  const PlanOptions options = OnRanks(1000, 2);
  const std::vector<uint32_t> lengths = {50, 60, 40, 50};
  absl::StatusOr<Plan> plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok());
  Plan other = *plan;
  other.passes[0].sequence_index[0] = 7;
  EXPECT_THAT(std::string(Explain({.lengths = lengths}, options, other).status().message()),
              HasSubstr("sequence_index[0] is 7"));
  other = *plan;
  other.passes[0].row_widths.pop_back();
  EXPECT_THAT(std::string(Explain({.lengths = lengths}, options, other).status().message()),
              HasSubstr("row_widths has 1 entries; must have 2"));
  other = *plan;
  other.passes.clear();
  EXPECT_FALSE(Explain({.lengths = lengths}, options, other).ok());
}

}  // namespace
}  // namespace batchplan
