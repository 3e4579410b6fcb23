// Whole plans of the balanced solver, compared with the plans of the reference presets for the same
// request, and with proven bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::GeneratedRequest;
using testing::MakeCheckedPlan;
using testing::PackedOptions;

// By how much summed step times may differ.
constexpr double kRounding = 1e-9;

constexpr absl::string_view kPackedPresets[] = {"nemo_rl_packing", "roll_packing", "mindspeed_rl",
                                                "verl"};
constexpr absl::string_view kPaddedPresets[] = {"nemo_rl_dynamic"};

// `pass` with the assignment of the preset, under the same limits, rows and order.
PassOptions AssignedAs(absl::string_view preset, const PassOptions& pass,
                       const Topology& topology) {
  const PassOptions method = *PresetPass(preset, topology);
  PassOptions assigned = pass;
  assigned.sharding = method.sharding;
  assigned.packer = method.packer;
  assigned.scan = method.scan;
  assigned.balance_on = method.balance_on;
  assigned.sequence_counts = pass.keeps_counts() ? pass.sequence_counts : method.sequence_counts;
  return assigned;
}

struct Comparison {
  uint64_t compared = 0;
  uint64_t shorter = 0;
};

// Plans `options`, whose passes are balanced, and the same request by each preset. If both have a
// plan, the balanced step of the first pass, which decides the ranks, is no longer.
void ExpectNoLongerThanPresets(const Manifest& manifest, const PlanOptions& options,
                               Comparison& comparison) {
  const auto balanced = MakeCheckedPlan(manifest, options);
  if (!balanced.ok()) return;
  const PlanMetrics& ours = balanced->passes[0].metrics;
  ASSERT_GE(ours.predicted_step_time, ours.lower_bound_step_time * (1 - kRounding));
  const bool padded = options.passes[0].layout == Layout::kPadded;
  for (const absl::string_view preset :
       padded ? std::span<const absl::string_view>(kPaddedPresets) : std::span(kPackedPresets)) {
    PlanOptions reference = options;
    reference.passes[0] = AssignedAs(preset, options.passes[0], options.topology);
    const auto theirs = MakeCheckedPlan(manifest, reference);
    if (!theirs.ok()) continue;
    const double their_time = theirs->passes[0].metrics.predicted_step_time;
    ASSERT_LE(ours.predicted_step_time, their_time * (1 + kRounding))
        << preset << ": longer by " << ours.predicted_step_time - their_time;
    ++comparison.compared;
    comparison.shorter += ours.predicted_step_time < their_time * (1 - kRounding);
  }
}

// A batch like those of trainers.
struct Family {
  std::string name;
  size_t sequences;
  uint32_t budget;
  uint32_t ranks;
  std::vector<uint32_t> (*lengths)(size_t, uint64_t);
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

class BalancedFamilyTest : public ::testing::TestWithParam<Family> {
 protected:
  static std::vector<uint32_t> Lengths(uint64_t seed) {
    return GetParam().lengths(GetParam().sequences, seed);
  }
  static PlanOptions Options(Synchronization synchronization, Effort effort = Effort::kDefault) {
    PlanOptions options =
        PackedOptions(GetParam().budget, Packer::kBalanced, GetParam().ranks, Sharding::kBalanced);
    options.synchronization = synchronization;
    options.effort = effort;
    return options;
  }
};

constexpr Synchronization kSynchronizations[] = {Synchronization::kLockstep,
                                                 Synchronization::kAccumulated};

TEST_P(BalancedFamilyTest, StepsAreNoLongerThanThoseOfThePresets) {
  Comparison comparison;
  for (const Synchronization synchronization : kSynchronizations) {
    for (const Effort effort : {Effort::kDefault, Effort::kThorough}) {
      const uint64_t seeds = effort == Effort::kThorough ? 1 : 3;
      for (const uint64_t seed : testing::Seeds(seeds)) {
        const std::vector<uint32_t> lengths = Lengths(seed);
        ExpectNoLongerThanPresets({.lengths = lengths}, Options(synchronization, effort),
                                  comparison);
        if (HasFailure()) FAIL() << "seed " << seed;
      }
    }
  }
  EXPECT_EQ(comparison.compared,
            2 * (testing::Cases(3) + testing::Cases(1)) * std::size(kPackedPresets));
}

TEST_P(BalancedFamilyTest, StepsOnPipelinesAreNoLongerThanThoseOfThePresets) {
  Comparison comparison;
  for (const Synchronization synchronization : kSynchronizations) {
    for (const uint32_t stages : {4, 8}) {
      for (const Layout layout : {Layout::kPacked, Layout::kPadded}) {
        PlanOptions options = Options(synchronization);
        options.topology.pipeline_parallel = stages;
        options.topology.virtual_pipeline = stages == 4 ? 2 : 1;
        options.cost_model.per_microbatch = 1000;
        options.passes[0].layout = layout;
        options.passes[0].order = MicrobatchOrder::kPipeline;
        ExpectNoLongerThanPresets({.lengths = Lengths(stages)}, options, comparison);
      }
    }
  }
  EXPECT_EQ(comparison.compared, 4 * (std::size(kPackedPresets) + 1));
}

TEST_P(BalancedFamilyTest, PaddedStepsAreNoLongerThanThoseOfThePresets) {
  Comparison comparison;
  for (const Synchronization synchronization : kSynchronizations) {
    const std::vector<uint32_t> lengths = Lengths(1);
    PlanOptions options = Options(synchronization);
    options.passes[0].layout = Layout::kPadded;
    ExpectNoLongerThanPresets({.lengths = lengths}, options, comparison);
  }
  EXPECT_EQ(comparison.compared, 2);
}

TEST_P(BalancedFamilyTest, LockstepEndsWithinThreeThousandthsOfTheBound) {
  for (const uint64_t seed : testing::Seeds(8)) {
    const auto plan = MakeCheckedPlan(Lengths(seed), Options(Synchronization::kLockstep));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_GE(metrics.predicted_step_time, metrics.lower_bound_step_time * (1 - kRounding));
    EXPECT_LE(metrics.predicted_step_time, metrics.lower_bound_step_time * 1.003)
        << "seed " << seed;
  }
}

TEST_P(BalancedFamilyTest, AccumulatedLosesNoMoreThanAThousandth) {
  for (const uint64_t seed : testing::Seeds(8)) {
    const auto plan = MakeCheckedPlan(Lengths(seed), Options(Synchronization::kAccumulated));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GE(plan->passes[0].metrics.step_efficiency, 0.999) << "seed " << seed;
  }
}

TEST_P(BalancedFamilyTest, TheFewestMicrobatchesAreFoundAndMoreShortenTheStep) {
  uint64_t certified = 0;
  uint64_t planned = 0;
  for (const Synchronization synchronization : kSynchronizations) {
    for (const uint64_t seed : testing::Seeds(20)) {
      const std::vector<uint32_t> lengths = Lengths(seed);
      const auto fewest = MakeCheckedPlan(lengths, Options(synchronization, Effort::kFast));
      const auto plan = MakeCheckedPlan(lengths, Options(synchronization));
      ASSERT_TRUE(fewest.ok() && plan.ok()) << fewest.status() << plan.status();
      const PlanMetrics& least = fewest->passes[0].metrics;
      const PlanMetrics& metrics = plan->passes[0].metrics;
      ++planned;
      certified += least.certified_optimal;
      if (metrics.microbatches > least.microbatches) {
        EXPECT_LT(metrics.predicted_step_time, least.predicted_step_time) << "seed " << seed;
        EXPECT_EQ(metrics.microbatches, least.microbatches + GetParam().ranks) << "seed " << seed;
      }
    }
  }
  RecordProperty("certified", std::to_string(certified));
  EXPECT_GE(certified * 100, planned * 99) << certified << " of " << planned;
}

INSTANTIATE_TEST_SUITE_P(
    Families, BalancedFamilyTest,
    ::testing::Values(Family{"Maths", 1024, 16384, 16, testing::MathsLengths},
                      Family{"LongCot", 2048, 65536, 64, testing::LongCotLengths},
                      Family{"Agentic", 1024, 32768, 16, testing::AgenticLengths},
                      Family{"Zipf", 2048, 8192, 8, testing::ZipfLengths}),
    [](const ::testing::TestParamInfo<Family>& info) { return info.param.name; });

void ExpectRandomStepsNoLonger(const std::vector<GeneratedRequest>& requests) {
  Comparison comparison;
  for (const GeneratedRequest& request : requests) {
    ExpectNoLongerThanPresets(request.manifest(), request.options, comparison);
    if (::testing::Test::HasFailure()) FAIL() << request.Describe();
  }
  std::cout << comparison.shorter << " of " << comparison.compared << " steps shorter\n";
  EXPECT_GT(comparison.compared, requests.size() / 2);
}

// The request with all passes balanced, over the same mini-batches, with enough effort to try the
// presets' assignments.
GeneratedRequest Balanced(GeneratedRequest request, uint64_t seed) {
  // Presets would shard differently.
  request.ranks.clear();
  for (PassOptions& pass : request.options.passes) {
    pass.ignore_mini_batches = request.options.passes[0].ignore_mini_batches;
    pass.sharding = Sharding::kBalanced;
    pass.packer = Packer::kBalanced;
  }
  request.options.effort = seed % 4 == 0 ? Effort::kThorough : Effort::kDefault;
  return request;
}

TEST(BalancedTest, RandomStepsAreNoLongerThanThoseOfThePresets) {
  std::vector<GeneratedRequest> requests;
  for (const uint64_t seed : testing::Seeds(300)) {
    requests.push_back(Balanced(testing::GenerateRequest(seed), seed));
  }
  ExpectRandomStepsNoLonger(requests);
}

TEST(BalancedTest, StepsOfThePresetItselfAreNoLongerThanThoseOfTheOthers) {
  std::vector<GeneratedRequest> requests;
  for (const uint64_t seed : testing::Seeds(300)) {
    requests.push_back(Balanced(testing::GeneratePresetRequest("balanced", seed), seed));
  }
  ExpectRandomStepsNoLonger(requests);
}

TEST(BalancedTest, SpreadingEmptyMicrobatchesDoesNotLoseToAPreset) {
  const std::vector<uint32_t> lengths = {9,  13, 2,  14, 7,  44, 44, 29, 37, 22, 29, 10, 31, 6,  16,
                                         3,  26, 27, 1,  31, 5,  24, 19, 19, 39, 8,  37, 1,  12, 18,
                                         31, 4,  31, 10, 3,  43, 11, 23, 42, 41, 5,  16, 34, 40, 6,
                                         10, 4,  17, 29, 32, 5,  26, 7,  9,  22, 36, 11, 37, 7,  17,
                                         34, 19, 18, 29, 37, 44, 12, 41, 39, 21, 31, 24};
  PlanOptions options = PackedOptions(44, Packer::kBalanced, 4, Sharding::kBalanced);
  options.topology.tensor_parallel = 4;
  options.topology.sequence_parallel = true;
  options.cost_model = {0, 0, 1};
  options.synchronization = Synchronization::kAccumulated;
  options.overlong = OverlongPolicy::kDrop;
  options.allow_empty_microbatches = true;
  options.passes[0].name = "train";
  options.passes[0].min_microbatches = 2;
  options.passes[0].microbatch_count_multiple = 2;
  options.passes.push_back(options.passes[0]);
  PassOptions& second = options.passes[1];
  second.name = "logprob";
  second.max_tokens_per_microbatch = 72;
  second.length_multiple = 2;
  second.min_microbatches = 3;
  second.microbatch_count_multiple = 1;
  second.max_sequences_per_microbatch = 1;
  Comparison comparison;
  ExpectNoLongerThanPresets({.lengths = lengths}, options, comparison);
  EXPECT_GT(comparison.compared, 0);
}

// The preset deals bins that another pass refuses, and then finds other ranks.
TEST(BalancedTest, APresetThatAnotherPassRefusesIsNoShorter) {
  const std::vector<uint32_t> lengths = {52, 47, 63, 55, 30, 26, 59, 50,
                                         59, 19, 38, 42, 19, 57, 37, 25};
  PlanOptions options = PackedOptions(66, Packer::kBalanced, 4, Sharding::kBalanced);
  options.synchronization = Synchronization::kAccumulated;
  options.cost_model = {0, 1.0 / 24, 0};
  options.passes[0].balance_on = BalanceOn::kTokens;
  options.passes[0].rows = RowPadding::kLongest;
  options.passes[0].max_sequences_per_microbatch = 3;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].max_sequences_per_microbatch = 2;
  options.passes[1].microbatch_count_multiple = 2;
  Comparison comparison;
  ExpectNoLongerThanPresets({.lengths = lengths}, options, comparison);
  EXPECT_EQ(comparison.compared, std::size(kPackedPresets));
}

// The preset's own ranks leave a micro-batch empty; its even ones do not.
TEST(BalancedTest, APresetThatSpreadsItsEmptyMicrobatchesIsNoShorter) {
  const std::vector<uint32_t> lengths = {13, 37, 39, 31, 13, 29, 23, 23, 12};
  PlanOptions options = PackedOptions(50, Packer::kBalanced, 3, Sharding::kBalanced);
  options.synchronization = Synchronization::kLockstep;
  options.cost_model = {1, 0.1, 0};
  options.allow_empty_microbatches = true;
  options.passes[0].balance_on = BalanceOn::kTokens;
  options.passes[0].microbatch_count_multiple = 2;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].microbatch_count_multiple = 3;
  Comparison comparison;
  ExpectNoLongerThanPresets({.lengths = lengths}, options, comparison);
  EXPECT_EQ(comparison.compared, std::size(kPackedPresets));
}

// The preset's ranks make a longer step, which is found before they are refused.
TEST(BalancedTest, APresetThatIsRefusedAtALongerStepIsNoShorter) {
  const std::vector<uint32_t> lengths = {64, 47, 72, 63, 16, 69, 9, 50, 68, 55};
  const std::vector<uint32_t> group_ids = {0, 1, 1, 2, 2, 3, 4, 4, 4, 5};
  PlanOptions options = PackedOptions(83, Packer::kBalanced, 2, Sharding::kBalanced);
  options.synchronization = Synchronization::kAccumulated;
  options.cost_model = {1, 1.0 / 24, 0, 10};
  options.mini_batches.groups = GroupPolicy::kSameRank;
  options.passes[0].rows = RowPadding::kLongest;
  options.passes[0].min_microbatches = 2;
  options.passes[0].microbatch_count_multiple = 2;
  Comparison comparison;
  ExpectNoLongerThanPresets({.lengths = lengths, .group_ids = group_ids}, options, comparison);
  EXPECT_EQ(comparison.compared, std::size(kPackedPresets));
}

// The solver's own ranks are refused. The fallback leaves micro-batches in any order, which makes a
// longer step in lockstep.
TEST(BalancedTest, MicrobatchesOfAFallbackStandCostliestFirst) {
  const std::vector<uint32_t> lengths = {35, 36, 75, 49, 71, 70, 43, 53,
                                         40, 72, 74, 42, 21, 27, 53, 63};
  const std::vector<uint32_t> group_ids = {0, 1, 2, 3, 3, 4, 4, 4, 5, 5, 6, 7, 7, 8, 9, 9};
  PlanOptions options = PackedOptions(78, Packer::kBalanced, 4, Sharding::kBalanced);
  options.synchronization = Synchronization::kLockstep;
  options.cost_model = {0, 1.0 / 24, 100, 10};
  options.mini_batches.groups = GroupPolicy::kSameRank;
  options.passes[0].balance_on = BalanceOn::kTokens;
  options.passes[0].min_microbatches = 3;
  options.passes[0].microbatch_count_multiple = 3;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].microbatch_count_multiple = 1;
  options.passes[1].max_sequences_per_microbatch = 3;
  Comparison comparison;
  ExpectNoLongerThanPresets({.lengths = lengths, .group_ids = group_ids}, options, comparison);
  EXPECT_EQ(comparison.compared, std::size(kPackedPresets));
}

// Micro-batches with equal costs before padding, but different ones after it, keep the order in
// which step times were compared.
TEST(BalancedTest, StepsInAnOrderThatIsAskedForAreNoLongerThanThoseOfThePresets) {
  const std::vector<uint32_t> lengths = {37, 77, 82, 22, 85, 33, 85, 87,
                                         51, 65, 81, 78, 49, 62, 23};
  PlanOptions options = PackedOptions(96, Packer::kBalanced, 3, Sharding::kBalanced);
  options.synchronization = Synchronization::kLockstep;
  options.cost_model = {1, 0, 0, 10};
  options.passes[0].balance_on = BalanceOn::kTokens;
  options.passes[0].order = MicrobatchOrder::kSmallAtBothEnds;
  options.passes[0].rows = RowPadding::kBuckets;
  options.passes[0].buckets = {24, 32, 48, 64, 80, 96};
  options.passes[0].min_microbatches = 2;
  Comparison comparison;
  ExpectNoLongerThanPresets({.lengths = lengths}, options, comparison);
  EXPECT_EQ(comparison.compared, std::size(kPackedPresets));
}

// None of the many ways to give ten groups to eight ranks is useful, which a few steps show.
TEST(BalancedTest, GroupsTooUnevenForTheRanksAreRefused) {
  std::vector<uint32_t> lengths = testing::MathsLengths(200, 1);
  for (uint32_t& length : lengths) length = std::min(length, uint32_t{4096});
  std::vector<uint32_t> group_ids;
  for (const uint32_t size : {84, 50, 34, 17, 7, 4, 1, 1, 1, 1}) {
    group_ids.insert(group_ids.end(), size, static_cast<uint32_t>(group_ids.size()));
  }
  PlanOptions options = PackedOptions(4096, Packer::kBalanced, 8, Sharding::kBalanced);
  options.mini_batches.groups = GroupPolicy::kSameRank;
  options.passes[0].max_sequences_per_microbatch = 5;
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
}

TEST(BalancedTest, EveryStepTakesAtLeastTheBound) {
  for (const uint64_t seed : testing::Seeds(150)) {
    const GeneratedRequest request = testing::GeneratePresetRequest("balanced", seed);
    const auto plan = MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    for (const PassPlan& pass : plan->passes) {
      const PlanMetrics& metrics = pass.metrics;
      ASSERT_GE(metrics.predicted_step_time, metrics.lower_bound_step_time * (1 - kRounding))
          << "seed " << seed << "\n"
          << request.Describe();
      ASSERT_GE(metrics.microbatches, metrics.lower_bound_microbatches);
    }
  }
}

}  // namespace
}  // namespace batchplan
