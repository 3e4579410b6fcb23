// What plans say of how they came about: which method won, and what other numbers of slots take.
// The checker has seen each of them: decisions have their shape, and the plan's own slots their
// time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "server/planner/request/decision.h"
#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::MakeCheckedPlan;
using testing::PackedOptions;

PlanOptions Balanced(uint32_t budget, uint32_t ranks) {
  return PackedOptions(budget, Packer::kBalanced, ranks, Sharding::kBalanced);
}

const MiniBatchDecision& DecisionOf(const Plan& plan, size_t pass = 0) {
  return plan.passes[pass].decisions.front();
}

std::vector<uint32_t> SlotsOf(const MiniBatchDecision& decision) {
  std::vector<uint32_t> slots;
  for (const SlotsTried& tried : decision.tried) slots.push_back(tried.slots);
  return slots;
}

TEST(NoteSlotsTest, KeepsTheShortestTimeOfEachNumberInOrder) {
  TriedSlots tried;
  NoteSlots(5, 2.0, tried);
  NoteSlots(3, 4.0, tried);
  NoteSlots(5, 3.0, tried);
  NoteSlots(3, 1.0, tried);
  EXPECT_EQ(tried, (TriedSlots{{3, 1.0}, {5, 2.0}}));
  SettleSlots(5, 2.5, tried);
  SettleSlots(4, 7.0, tried);
  EXPECT_EQ(tried, (TriedSlots{{3, 1.0}, {4, 7.0}, {5, 2.5}}));
  NoteOtherSlots(TriedSlots{{3, 0.5}, {4, 0.5}, {9, 3.0}}, 4, tried);
  EXPECT_EQ(tried, (TriedSlots{{3, 0.5}, {4, 7.0}, {5, 2.5}, {9, 3.0}}));
}

TEST(NoteSlotsTest, BeyondTheMostTheLongestTimesGoButForTheFewestAndThePlansOwn) {
  TriedSlots tried;
  NoteSlots(1, 1000.0, tried);
  for (uint32_t slots = 40; slots > 1; --slots) NoteSlots(slots, slots, tried);
  EXPECT_EQ(tried.size(), kMostTriedSlots);
  EXPECT_EQ(tried.front(), (SlotsTried{1, 1000.0}));
  EXPECT_EQ(tried.back(), (SlotsTried{16, 16.0}));
  SettleSlots(100, 500.0, tried);
  EXPECT_EQ(tried.size(), kMostTriedSlots);
  EXPECT_EQ(tried.back(), (SlotsTried{100, 500.0}));
  NoteOtherSlots(TriedSlots{{50, 0.0}}, 100, tried);
  EXPECT_EQ(tried.back(), (SlotsTried{100, 500.0}));
  EXPECT_EQ(tried.front().slots, 1);
}

// A sequence of L tokens costs L + L^2 / 10, and a micro-batch 2.
PlanOptions OnTwoRanks() {
  PlanOptions options = Balanced(24, 2);
  options.cost_model = {.per_token = 1, .per_token_squared = 0.1, .per_microbatch = 2};
  return options;
}

// In one slot 17 is with 7: 57.8 and a micro-batch. In two, 17 beside 14 and 7 takes 45.9, and 4
// and 1 beside 4 take 6.7.
TEST(DecisionsTest, MoreSlotsThanTheFewestAreToldBesideWhatFewerTake) {
  const Plan plan = MakeCheckedPlan({4, 17, 14, 1, 7, 4}, OnTwoRanks()).value();
  const MiniBatchDecision& decision = DecisionOf(plan);
  EXPECT_EQ(plan.passes[0].microbatches_per_rank, (std::vector<uint32_t>{2}));
  EXPECT_EQ(decision.method, "balanced");
  EXPECT_EQ(decision.fewest_slots, 1);
  ASSERT_EQ(SlotsOf(decision), (std::vector<uint32_t>{1, 2}));
  EXPECT_NEAR(decision.tried[0].step_time, 59.8, 1e-9);
  EXPECT_NEAR(decision.tried[1].step_time, 56.6, 1e-9);
}

// Padding to the budget makes all micro-batches alike but for attention, so that the solver counts
// that alone; what is told are step times all the same.
TEST(DecisionsTest, TimesAreThoseOfPaddedRows) {
  PlanOptions options = OnTwoRanks();
  options.passes[0].rows = RowPadding::kCapacity;
  const Plan plan = MakeCheckedPlan({4, 17, 14, 1, 7, 4}, options).value();
  const MiniBatchDecision& decision = DecisionOf(plan);
  ASSERT_EQ(decision.tried.front().slots, 1);
  // A row of 24 tokens, the squares of 17 and 7, and a micro-batch.
  EXPECT_NEAR(decision.tried.front().step_time, 24 + 33.8 + 2, 1e-9);
}

TEST(DecisionsTest, AReferenceThatWinsIsNamed) {
  PlanOptions options = OnTwoRanks();
  options.cost_model.per_microbatch = 0;
  const std::vector<uint32_t> lengths = {16, 17, 1, 7, 9, 7, 11, 8, 16, 19};
  const Plan plan = MakeCheckedPlan(lengths, options).value();
  EXPECT_EQ(DecisionOf(plan).method, "nemo_rl_packing");
  EXPECT_EQ(SlotsOf(DecisionOf(plan)), (std::vector<uint32_t>{3, 4}));
  for (const absl::string_view preset : kPresetNames) {
    const PassOptions method = PresetPass(preset, options.topology).value();
    if (method.layout == Layout::kPadded || preset == "balanced" ||
        method.sharding == Sharding::kMegatronDynamicCp) {
      continue;
    }
    PlanOptions as_preset = options;
    as_preset.passes[0] = method;
    as_preset.passes[0].max_tokens_per_microbatch = 24;
    as_preset.passes[0].order = MicrobatchOrder::kAsAssigned;
    const absl::StatusOr<Plan> other = MakeCheckedPlan(lengths, as_preset);
    if (!other.ok()) continue;
    const double own = plan.passes[0].metrics.predicted_step_time;
    const double its = other->passes[0].metrics.predicted_step_time;
    if (preset == "nemo_rl_packing") {
      EXPECT_EQ(its, own);
    } else {
      EXPECT_GT(its, own) << preset;
    }
  }
}

TEST(DecisionsTest, APassThatAsksForAPresetNamesIt) {
  for (const absl::string_view preset : kPresetNames) {
    if (preset == "balanced") continue;  // It may take the way of another.
    PlanOptions options = OnTwoRanks();
    const PassOptions limits = options.passes[0];
    if (preset == "megatron_dynamic_cp") options.topology.dynamic_context = DynamicContext{};
    options.passes[0] = PresetPass(preset, options.topology).value();
    options.passes[0].max_tokens_per_microbatch = limits.max_tokens_per_microbatch;
    const Plan plan = MakeCheckedPlan({4, 17, 14, 1, 7, 4}, options).value();
    EXPECT_EQ(DecisionOf(plan).method, preset);
  }
  PlanOptions options = OnTwoRanks();
  options.passes[0].sharding = Sharding::kLpt;
  EXPECT_EQ(DecisionOf(MakeCheckedPlan({4, 17, 14, 1}, options).value()).method, "lpt");
}

// A pool of 4 ranks; 24 tokens on each 2 of them.
PlanOptions OnAPool() {
  PlanOptions options = OnTwoRanks();
  options.topology.context_parallel = 2;
  options.topology.dynamic_context = DynamicContext{};
  options.cost_model.exchange = {{0, 0.2}};
  return options;
}

TEST(DecisionsTest, OneSizeOfAllGroupsIsNamed) {
  const std::vector<uint32_t> lengths = {23, 38, 35, 37, 34, 14, 35, 40, 35, 36, 4, 33};
  const Plan plan = MakeCheckedPlan(lengths, OnAPool()).value();
  EXPECT_EQ(DecisionOf(plan).method, "context_parallel_4");
  EXPECT_GT(plan.passes[0].microbatches_per_rank[0], DecisionOf(plan).fewest_slots);
  EXPECT_GT(DecisionOf(plan).tried.size(), 1);
  PlanOptions fixed = OnAPool();
  fixed.topology.dynamic_context.reset();
  fixed.topology.data_parallel = 1;
  fixed.topology.context_parallel = 4;
  fixed.passes[0].max_tokens_per_microbatch = 48;
  const Plan on_one = MakeCheckedPlan(lengths, fixed).value();
  EXPECT_NEAR(on_one.passes[0].metrics.predicted_step_time,
              plan.passes[0].metrics.predicted_step_time, 1e-9);
}

TEST(DecisionsTest, MegatronsGroupsThatWinAreNamed) {
  const std::vector<uint32_t> lengths = {35, 19, 37, 12, 31, 22, 25, 39, 32, 26, 28, 26};
  const Plan plan = MakeCheckedPlan(lengths, OnAPool()).value();
  EXPECT_EQ(DecisionOf(plan).method, "megatron_dynamic_cp");
  PlanOptions asked = OnAPool();
  asked.passes[0].sharding = Sharding::kMegatronDynamicCp;
  const Plan as_asked = MakeCheckedPlan(lengths, asked).value();
  EXPECT_EQ(as_asked.passes[0].metrics.predicted_step_time,
            plan.passes[0].metrics.predicted_step_time);
}

TEST(DecisionsTest, LaterPassesTellHowTheyFillWhatRanksHave) {
  PlanOptions options = OnTwoRanks();
  options.mini_batches.size = 6;
  PassOptions later = options.passes[0];
  later.packer = Packer::kFirstFitDecreasing;
  later.name = "filled";
  options.passes.push_back(later);
  later.name = "whole";
  later.ignore_mini_batches = true;
  later.packer = Packer::kBalanced;
  options.passes.push_back(later);
  const std::vector<uint32_t> lengths = {4, 17, 14, 1, 7, 4, 4, 17, 14, 1, 7, 4};
  const Plan plan = MakeCheckedPlan(lengths, options).value();
  ASSERT_EQ(plan.passes[0].decisions.size(), 2);
  EXPECT_EQ(plan.passes[0].decisions[1].method, "balanced");
  EXPECT_EQ(SlotsOf(plan.passes[0].decisions[1]), (std::vector<uint32_t>{1, 2}));
  ASSERT_EQ(plan.passes[1].decisions.size(), 2);
  EXPECT_EQ(plan.passes[1].decisions[1].method, "first_fit_decreasing");
  ASSERT_EQ(plan.passes[2].decisions.size(), 1);
  EXPECT_EQ(plan.passes[2].decisions[0].method, "balanced");

  PlanOptions pool = OnAPool();
  pool.passes.push_back(pool.passes[0]);
  pool.passes[1].name = "later";
  pool.passes[1].max_tokens_per_microbatch = 48;
  EXPECT_EQ(DecisionOf(MakeCheckedPlan(lengths, pool).value(), 1).method, "follow");
}

TEST(DecisionsTest, GivenRanksTellTheNumbersOfSlotsThatWereTriedOnThem) {
  PlanOptions options = OnTwoRanks();
  options.cost_model.per_microbatch = 0;
  const std::vector<uint32_t> lengths = {17, 7, 4, 14, 1, 4};
  const std::vector<uint32_t> ranks = {0, 0, 1, 1, 1, 1};
  const Plan plan = MakeCheckedPlan({.lengths = lengths, .ranks = ranks}, options).value();
  const MiniBatchDecision& decision = DecisionOf(plan);
  EXPECT_EQ(decision.fewest_slots, 1);
  ASSERT_EQ(decision.tried.front().slots, 1);
  EXPECT_NEAR(decision.tried.front().step_time, 57.8, 1e-9);
}

TEST(DecisionsTest, ManyMiniBatchesTellOfTheFirst) {
  PlanOptions options = OnTwoRanks();
  options.mini_batches.size = 2;
  const std::vector<uint32_t> lengths(2 * (kMostDecisions + 10), 5);
  const Plan plan = MakeCheckedPlan(lengths, options).value();
  EXPECT_EQ(plan.passes[0].microbatches_per_rank.size(), kMostDecisions + 10);
  EXPECT_EQ(plan.passes[0].decisions.size(), kMostDecisions);
}

// What is told of other numbers of slots are times of plans within the constraints.
TEST(DecisionsTest, NoTimeIsBelowTheBound) {
  uint64_t others = 0;
  for (const uint64_t seed : testing::Seeds(1500)) {
    const testing::GeneratedRequest request = testing::GenerateRequest(seed);
    const absl::StatusOr<Plan> plan = MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    for (const PassPlan& pass : plan->passes) {
      if (pass.microbatches_per_rank.size() > 1) continue;
      const double bound = pass.metrics.lower_bound_step_time;
      for (const SlotsTried& tried : pass.decisions[0].tried) {
        ASSERT_GE(tried.step_time, bound * (1 - 1e-6))
            << tried.slots << " slots: " << request.Describe();
      }
      others += pass.decisions[0].tried.size() - 1;
    }
  }
  EXPECT_GT(others, testing::Cases(100));
}

}  // namespace
}  // namespace batchplan
