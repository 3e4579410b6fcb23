// Plans whose waiting has a known cause: which one is named, and how much of the step it is.

#include "server/explain/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"

namespace batchplan {
namespace {

using ::testing::Contains;
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
      "16.7% in any plan, as a budget of 100 tokens makes 2 slots or more, each as long as its "
      "costliest micro-batch; with twice the budget it may be nothing.");
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
  EXPECT_THAT(minimum.sentences[1],
              HasSubstr("as ranks have at least 2 micro-batches, each with a sequence."));
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
  EXPECT_THAT(multiple.sentences,
              ::testing::Contains(HasSubstr("as ranks have micro-batches in multiples of 4.")));
}

// Accumulated, 300 is on a rank with another in its second micro-batch.
TEST(ExplanationTest, TheBudgetLeavesNoMicrobatchEmpty) {
  PlanOptions options = OnRanks(300, 2);
  options.synchronization = Synchronization::kAccumulated;
  options.cost_model = {.per_token = 0, .per_token_squared = 1};
  const Explanation two = ExplanationOf({300, 10, 150, 200, 100}, options);
  EXPECT_THAT(two.causes, ::testing::Contains(Of(Cause::kBudget, 100)));
  EXPECT_THAT(two.sentences,
              ::testing::Contains(HasSubstr("a budget of 300 tokens makes 2 micro-batches a rank "
                                            "or more, none of them empty")));
}

// 300 tokens are as many as the others together, but one of them has to be beside it.
TEST(ExplanationTest, RanksHaveEquallyManySequences) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].sequence_counts = EqualCounts::kExact;
  const Explanation equal = ExplanationOf({300, 100, 100, 100}, options);
  EXPECT_THAT(equal.causes, ElementsAre(Of(Cause::kEqualCounts, 100)));
  EXPECT_THAT(equal.sentences[1], HasSubstr("as ranks have equally many sequences."));
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

TEST(ExplanationTest, GroupsStayInOneMicrobatch) {
  PlanOptions options = OnRanks(1000, 2);
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const std::vector<uint32_t> lengths = {100, 100, 100, 100};
  const std::vector<uint32_t> groups = {0, 0, 0, 1};
  const Explanation together =
      ExplanationOf(Manifest{.lengths = lengths, .group_ids = groups}, options);
  EXPECT_THAT(together.causes, ElementsAre(Of(Cause::kGroups, 100)));
  EXPECT_THAT(together.sentences[1], HasSubstr("groups stay in one micro-batch"));
}

// Four groups in four micro-batches: slots of 400 and 100 beside two of 200.
TEST(ExplanationTest, EachMicrobatchHasAGroup) {
  PlanOptions options = OnRanks(1000, 2);
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  options.passes[0].min_microbatches = 2;
  const std::vector<uint32_t> lengths = {300, 100, 100, 200, 100, 100};
  const std::vector<uint32_t> groups = {0, 0, 1, 2, 3, 3};
  const Explanation each =
      ExplanationOf(Manifest{.lengths = lengths, .group_ids = groups}, options);
  EXPECT_THAT(each.causes, ::testing::Contains(Of(Cause::kMicrobatchCounts, 150)));
  EXPECT_THAT(each.sentences[1], HasSubstr("at least 2 micro-batches, each with a group."));
  EXPECT_EQ(each.sentences.back(), "No plan for this request is shorter.");
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

// One image a micro-batch: four are two slots, each with two of the sequences of 300, 100, 200 and
// 200. Without the limit they are 400 a rank in one slot.
TEST(ExplanationTest, LimitsOfLoadsMakeSlots) {
  PlanOptions options = OnRanks(1000, 2);
  options.passes[0].limits = {{.load = "images", .max_per_microbatch = 1}};
  const std::vector<uint32_t> lengths = {300, 100, 200, 200};
  const std::vector<double> images(4, 1);
  const Explanation limits = ExplanationOf(
      Manifest{.lengths = lengths, .loads = {{.name = "images", .values = images}}}, options);
  EXPECT_THAT(limits.causes, ElementsAre(Of(Cause::kLoadLimits, 100)));
  EXPECT_THAT(limits.sentences[1], HasSubstr("as micro-batches have no more than 1 of images."));
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
  EXPECT_THAT(phases.sentences[1],
              HasSubstr("as ranks wait for each other after the phase of patches."));
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

// Two sequences on two pipelines: 60 tokens on one of them wait for nothing that stages prove.
TEST(ExplanationTest, StagesProveNothingOfUnevenRanks) {
  PlanOptions options = OnRanks(100, 2);
  options.topology.pipeline_parallel = 2;
  options.synchronization = Synchronization::kAccumulated;
  options.pipeline.stage_shares = {0.6, 0.4};
  const Explanation uneven = ExplanationOf({60, 20}, options);
  // 40 tokens a rank are 20 a stage, and 24 of the busiest.
  EXPECT_THAT(uneven.causes, ::testing::Contains(Of(Cause::kStages, 4)));
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

// Two answers to each of two prompts, dealt so that each rank has both prompts.
TEST(ExplanationTest, NothingIsProvenOfPrefixesThatAPlanRepeats) {
  const PlanOptions options = OnRanks(300, 2);
  const std::vector<uint32_t> lengths(4, 150);
  const std::vector<uint32_t> prefixes = {0, 100, 0, 100};
  const std::vector<uint32_t> with = {0, 0, 0, 2};
  const Manifest manifest = {.lengths = lengths, .shared_prefixes = prefixes, .shared_with = with};
  absl::StatusOr<Plan> plan = MakeCheckedPlan(manifest, options);
  ASSERT_TRUE(plan.ok());
  PassPlan& pass = plan->passes[0];
  ASSERT_EQ(pass.metrics.predicted_step_time, 200);
  pass.sequence_index = {0, 2, 1, 3};
  pass.shared_tokens = {0, 0, 0, 0};
  pass.row_widths = {300, 300};
  pass.metrics.predicted_step_time = 300;
  const auto explanations = Explain(manifest, options, *plan);
  ASSERT_TRUE(explanations.ok());
  EXPECT_THAT(explanations->front().causes,
              ElementsAre(Of(Cause::kRepeatedPrefixes, 100, /*in_any_plan=*/false)));
  EXPECT_EQ(explanations->front().sentences.back(),
            "A better plan may exist, at most 33.3% shorter.");
}

// The same on two context-parallel ranks: 200 tokens a micro-batch are 100 on each, and half of
// them received at half the price.
TEST(ExplanationTest, ExchangeIsToldFromRepeatedPrefixes) {
  PlanOptions options = OnRanks(300, 2);
  options.topology.context_parallel = 2;
  options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.5}};
  const std::vector<uint32_t> lengths(4, 152);
  const std::vector<uint32_t> prefixes = {0, 100, 100, 100};
  const std::vector<uint32_t> with(4, 0);
  const Explanation both = ExplanationOf(
      Manifest{.lengths = lengths, .shared_prefixes = prefixes, .shared_with = with}, options);
  EXPECT_THAT(both.causes, ElementsAre(Of(Cause::kExchange, 51, /*in_any_plan=*/false),
                                       Of(Cause::kRepeatedPrefixes, 25, /*in_any_plan=*/false)));
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

TEST(ExplanationTest, SharedTokensThatDoNotFitThePlanAreRefused) {
  const PlanOptions options = OnRanks(1000, 1);
  const std::vector<uint32_t> lengths = {50, 60};
  const Plan plan = MakeCheckedPlan(lengths, options).value();
  for (const std::vector<uint32_t>& shared : {std::vector<uint32_t>{0, 0, 0}, {0, 61}}) {
    Plan wrong = plan;
    wrong.passes[0].shared_tokens = shared;
    EXPECT_THAT(Explain({.lengths = lengths}, options, wrong).status().message(),
                ::testing::HasSubstr("shared_tokens"));
  }
}

std::string Listed(const std::vector<ExplainedTime>& causes) {
  return absl::StrJoin(causes, ", ", [](std::string* out, const ExplainedTime& one) {
    absl::StrAppend(out, NameOf(one.cause), " ", one.time);
  });
}

// A request of any feature, by its number.
testing::GeneratedRequest AnyRequest(uint64_t seed) {
  testing::GeneratedRequest request =
      seed % 5 == 0 ? testing::GenerateDynamicRequest(seed) : testing::GenerateRequest(seed);
  if (seed % 5 == 1) testing::AddSharedPrefixes(seed, &request);
  if (seed % 7 < 3) testing::AddLoads(seed, &request);
  if (seed % 7 == 3) testing::AddKinds(seed, &request);
  if (seed % 11 == 4) testing::AddMultiples(seed, &request);
  return request;
}

// Whatever is asked: no part is negative, and together they are all. What is proven leaves room for
// no more than the bound, which is held against all plans of small requests where it is made.
TEST(ExplanationTest, GeneratedRequestsAreExplained) {
  int explained = 0;
  std::set<Cause> causes;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const testing::GeneratedRequest request = AnyRequest(seed);
    SCOPED_TRACE(request.Describe());
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    const auto explanations = Explain(request.manifest(), request.options, *plan);
    ASSERT_TRUE(explanations.ok()) << explanations.status();
    ++explained;
    for (const Explanation& explanation : *explanations) {
      const double predicted = explanation.predicted_step_time;
      double sum = 0;
      double proven = 0;
      for (const ExplainedTime& one : explanation.causes) {
        EXPECT_GT(one.time, 0);
        causes.insert(one.cause);
        sum += one.time;
        if (one.in_any_plan) proven += one.time;
      }
      EXPECT_NEAR(sum, predicted - explanation.ideal_step_time, 1e-6 * predicted);
      EXPECT_LE(explanation.ideal_step_time + proven,
                explanation.lower_bound_step_time + 1e-6 * predicted)
          << Listed(explanation.causes);
      EXPECT_GE(explanation.sentences.size(), 2u);
      if (predicted <= 0) continue;
      const bool best = explanation.lower_bound_step_time > (1 - 1e-9) * predicted;
      EXPECT_THAT(explanation.sentences,
                  Contains("No plan for this request is shorter.").Times(best ? 1 : 0));
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(explained, 150);
  EXPECT_GE(causes.size(), 12u);
  EXPECT_TRUE(causes.contains(Cause::kKinds));
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
