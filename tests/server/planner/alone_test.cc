// OverlongPolicy::kAlone: a sequence above the token budget in a micro-batch of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/support/best_step_time.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::PackedOptions;
using testing::RandomStream;
using ::testing::UnorderedElementsAre;

PlanOptions AloneOptions(uint32_t budget, uint32_t data_parallel = 1,
                         Packer packer = Packer::kBalanced,
                         Sharding sharding = Sharding::kBalanced) {
  PlanOptions options = PackedOptions(budget, packer, data_parallel, sharding);
  options.overlong = OverlongPolicy::kAlone;
  return options;
}

TEST(AloneTest, ALongerSequenceRunsByItselfInARowOfItsAlignedLength) {
  PlanOptions options = AloneOptions(100);
  options.passes[0].length_multiple = 8;
  const Plan plan = MakeCheckedPlan({30, 201, 40, 20}, options).value();
  EXPECT_THAT(LengthsOf(plan.passes[0]),
              UnorderedElementsAre(ElementsAre(201), UnorderedElementsAre(30, 40, 20)));
  EXPECT_THAT(plan.passes[0].row_widths, UnorderedElementsAre(208, 96));
  ASSERT_EQ(plan.excluded.size(), 1u);
  EXPECT_EQ(plan.excluded[0].index, 1u);
  EXPECT_EQ(plan.excluded[0].length, 201u);
  EXPECT_EQ(plan.excluded[0].reason, ExclusionReason::kAlone);
  EXPECT_TRUE(plan.passes[0].metrics.certified_optimal);
}

TEST(AloneTest, ASequenceThatOnlyAlignmentPutsOverTheBudgetRunsAlone) {
  PlanOptions options = AloneOptions(10);
  options.passes[0].length_multiple = 4;
  const Plan plan = MakeCheckedPlan({9, 8}, options).value();
  EXPECT_THAT(plan.passes[0].row_widths, UnorderedElementsAre(12, 8));
  EXPECT_EQ(plan.excluded.size(), 1u);
}

TEST(AloneTest, InAPassWhoseBudgetHoldsItASequenceStandsBesideOthers) {
  PlanOptions options = AloneOptions(100);
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprobs";
  options.passes[1].max_tokens_per_microbatch = 300;
  const Plan plan = MakeCheckedPlan({30, 201, 40, 20}, options).value();
  EXPECT_EQ(plan.passes[0].metrics.microbatches, 2u);
  EXPECT_THAT(plan.passes[1].row_widths, ElementsAre(291));
  EXPECT_EQ(plan.excluded.size(), 1u);
}

TEST(AloneTest, OtherRowsArePaddedAsAsked) {
  for (const RowPadding rows : {RowPadding::kCapacity, RowPadding::kBuckets}) {
    PlanOptions options = AloneOptions(100);
    options.passes[0].rows = rows;
    if (rows == RowPadding::kBuckets) options.passes[0].buckets = {50, 80};
    const Plan plan = MakeCheckedPlan({30, 201, 40}, options).value();
    EXPECT_THAT(plan.passes[0].row_widths,
                UnorderedElementsAre(201, rows == RowPadding::kCapacity ? 100 : 80));
  }
}

TEST(AloneTest, ASequenceBetweenTheWidestBucketAndTheBudgetIsRefused) {
  PlanOptions options = AloneOptions(100);
  options.passes[0].rows = RowPadding::kBuckets;
  options.passes[0].buckets = {50, 80};
  EXPECT_THAT(
      std::string(
          MakePlan({.lengths = std::vector<uint32_t>{30, 201, 90}}, options).status().message()),
      HasSubstr("passes[0].packed.buckets ends at 80, but the longest sequence takes 90"));
}

TEST(AloneTest, APaddedMicrobatchMayBeWiderThanTheBudgetByItself) {
  for (const Scan scan : {Scan::kSorted, Scan::kOptimal}) {
    for (const Sharding sharding : {Sharding::kBalanced, Sharding::kContiguous, Sharding::kLpt}) {
      PlanOptions options = AloneOptions(100, 2, Packer::kBalanced, sharding);
      options.passes[0].layout = Layout::kPadded;
      options.passes[0].scan = scan;
      const Plan plan = MakeCheckedPlan({30, 201, 150, 150, 40, 20, 30, 50}, options).value();
      for (const uint32_t wide : {201u, 150u}) {
        EXPECT_THAT(plan.passes[0].row_widths, Contains(wide));
      }
    }
  }
}

TEST(AloneTest, AMicrobatchAboveTheBudgetCountsAsFull) {
  PlanOptions options = AloneOptions(100, 1, Packer::kConcatenative);
  options.passes[0].length_multiple = 10;
  // Rows [50, 40], [195], [75]: of 100, 200 and 100 tokens.
  const PlanMetrics metrics = MakeCheckedPlan({50, 40, 195, 75}, options)->passes[0].metrics;
  EXPECT_EQ(metrics.microbatches, 3u);
  EXPECT_DOUBLE_EQ(metrics.bin_utilization, 360.0 / 400);
  EXPECT_DOUBLE_EQ(metrics.aligned_bin_utilization, 370.0 / 400);
  EXPECT_DOUBLE_EQ(metrics.waste_ratio, 1 - 360.0 / 400);
  // 165 tokens beside it need two micro-batches.
  EXPECT_DOUBLE_EQ(metrics.packing_efficiency, 1);
  // Of 0.9, 0.975 and 0.75.
  EXPECT_NEAR(metrics.bin_balance, 1 - 0.1145643924 / 0.875, 1e-9);
}

TEST(AloneTest, LowerBoundsHoldForEveryPlan) {
  uint64_t compared = 0;
  for (const uint64_t seed : testing::Seeds(400)) {
    RandomStream random(seed);
    constexpr uint32_t kBudget = 20;
    const auto ranks = random.OneOf<uint32_t>({2, 3});
    std::vector<uint32_t> lengths(random.Between(ranks, 8));
    for (uint32_t& length : lengths) {
      length =
          static_cast<uint32_t>(random.Chance(30) ? random.Between(21, 60) : random.Between(1, 20));
    }
    PlanOptions options = AloneOptions(kBudget, ranks);
    options.cost_model = random.Chance(50) ? CostModel{1, 0, 0} : CostModel{0, 1, 0};
    options.allow_empty_microbatches = true;
    // One that runs alone takes all the room of a micro-batch.
    std::vector<uint32_t> rooms;
    std::vector<uint64_t> costs;
    for (const uint64_t length : lengths) {
      rooms.push_back(static_cast<uint32_t>(std::min<uint64_t>(length, kBudget)));
      costs.push_back(options.cost_model.per_token == 1 ? length : length * length);
    }
    const uint64_t best =
        testing::BestLockstep({.lengths = rooms, .loads = costs}, {.capacity = kBudget}, ranks);
    const auto plan = MakeCheckedPlan(lengths, options);
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status();
    const PlanMetrics& metrics = plan->passes[0].metrics;
    ASSERT_LE(metrics.lower_bound_step_time, static_cast<double>(best) * (1 + 1e-9))
        << "seed " << seed;
    ASSERT_GE(metrics.predicted_step_time, static_cast<double>(best) * (1 - 1e-9))
        << "seed " << seed;
    compared += !plan->excluded.empty();
  }
  EXPECT_GT(compared, testing::Cases(100));
}

TEST(AloneTest, WithoutAnOverlongSequenceThePolicyMakesNoDifference) {
  uint64_t compared = 0;
  for (const uint64_t seed : testing::Seeds(400)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    request.options.overlong = OverlongPolicy::kReject;
    const auto rejected = MakeCheckedPlan(request.manifest(), request.options);
    if (!rejected.ok()) continue;
    request.options.overlong = OverlongPolicy::kAlone;
    if (!request.options.Validate().ok()) continue;
    const auto alone = MakeCheckedPlan(request.manifest(), request.options);
    ASSERT_TRUE(alone.ok()) << "seed " << seed << ": " << alone.status();
    ASSERT_EQ(alone->fingerprint, rejected->fingerprint) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, testing::Cases(50));
}

TEST(AloneTest, EachPresetHasItOrIsRefusedByName) {
  std::vector<uint32_t> lengths(64, 300);
  lengths[5] = 3000;
  for (const absl::string_view preset : kPresetNames) {
    for (const uint32_t pipeline : {1u, 2u}) {
      PlanOptions options = AloneOptions(1000, 4);
      options.topology.pipeline_parallel = pipeline;
      options.passes[0] = PresetPass(preset, options.topology).value();
      options.passes[0].max_tokens_per_microbatch = 1000;
      const bool refused = preset == "nemo_rl_dynamic" || preset == "roll_dynamic" ||
                           preset == "megatron_dynamic_cp" ||
                           (preset == "nemo_rl_packing" && pipeline > 1);
      const auto plan = MakeCheckedPlan(lengths, options);
      EXPECT_EQ(plan.ok(), !refused) << preset << ": " << plan.status();
      if (plan.ok()) {
        EXPECT_THAT(LengthsOf(plan->passes[0]), Contains(ElementsAre(3000))) << preset;
      } else {
        EXPECT_THAT(std::string(plan.status().message()), HasSubstr(std::string(preset)));
      }
    }
  }
}

}  // namespace
}  // namespace batchplan
