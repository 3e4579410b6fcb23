// What must not change, or only one way, when the request changes in a known way.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::PackedOptions;
using testing::RandomStream;

constexpr uint32_t kBudget = 1000;

std::vector<uint32_t> RandomLengths(RandomStream& random) {
  std::vector<uint32_t> lengths(random.Between(20, 80));
  // Few distinct lengths make many ties.
  const uint64_t kinds = random.OneOf<uint64_t>({5, kBudget});
  for (uint32_t& length : lengths) {
    length = static_cast<uint32_t>(random.Between(1, kinds) * (kBudget / kinds));
  }
  return lengths;
}

void Shuffle(RandomStream& random, std::vector<uint32_t>& values) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.Between(0, i - 1)]);
  }
}

// The lengths in each bin, in a canonical order.
std::vector<std::vector<uint32_t>> SortedBins(const Plan& plan) {
  std::vector<std::vector<uint32_t>> bins = LengthsOf(plan.passes[0]);
  for (std::vector<uint32_t>& bin : bins) std::sort(bin.begin(), bin.end());
  std::sort(bins.begin(), bins.end());
  return bins;
}

TEST(MetamorphicTest, DecreasingPackersDoNotSeeTheOrderOfTheManifest) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    std::vector<uint32_t> lengths = RandomLengths(random);
    for (const Packer packer : {Packer::kFirstFitDecreasing, Packer::kBestFitDecreasing,
                                Packer::kModifiedFirstFitDecreasing}) {
      const auto before = MakeCheckedPlan(lengths, PackedOptions(kBudget, packer));
      Shuffle(random, lengths);
      const auto after = MakeCheckedPlan(lengths, PackedOptions(kBudget, packer));
      ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
      ASSERT_EQ(SortedBins(*before), SortedBins(*after)) << "seed " << seed;
    }
  }
}

PlanOptions PaddedOptions(Scan scan, uint32_t data_parallel, Sharding sharding) {
  PlanOptions options = PackedOptions(kBudget, Packer::kBalanced, data_parallel, sharding);
  options.passes[0].layout = Layout::kPadded;
  options.passes[0].scan = scan;
  return options;
}

// One request for each packer and scan.
std::vector<PlanOptions> EveryFilling() {
  std::vector<PlanOptions> all;
  for (const Packer packer :
       {Packer::kConcatenative, Packer::kFirstFitDecreasing, Packer::kFirstFitShuffle,
        Packer::kModifiedFirstFitDecreasing, Packer::kBestFitDecreasing, Packer::kKarmarkarKarp}) {
    all.push_back(PackedOptions(kBudget, packer, 2, Sharding::kDealBins));
    all.push_back(PackedOptions(kBudget, packer, 2, Sharding::kLpt));
  }
  for (const Scan scan : {Scan::kSorted, Scan::kOptimal}) {
    all.push_back(PaddedOptions(scan, 2, Sharding::kKarmarkarKarp));
  }
  return all;
}

TEST(MetamorphicTest, LengthsAndBudgetScaleTogether) {
  uint64_t compared = 0;
  uint64_t tried = 0;
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const std::vector<uint32_t> lengths = RandomLengths(random);
    const auto factor = static_cast<uint32_t>(random.Between(2, 1000));
    std::vector<uint32_t> scaled = lengths;
    for (uint32_t& length : scaled) length *= factor;
    for (PlanOptions options : EveryFilling()) {
      options.cost_model = {1, 0, 0};
      const auto before = MakeCheckedPlan(lengths, options);
      options.passes[0].max_tokens_per_microbatch *= factor;
      const auto after = MakeCheckedPlan(scaled, options);
      ASSERT_EQ(before.ok(), after.ok()) << before.status() << after.status();
      ++tried;
      if (!before.ok()) continue;
      ++compared;
      ASSERT_EQ(before->passes[0].microbatches_per_rank, after->passes[0].microbatches_per_rank)
          << "seed " << seed;
      ASSERT_EQ(before->passes[0].metrics.lower_bound_microbatches,
                after->passes[0].metrics.lower_bound_microbatches)
          << "seed " << seed;
    }
  }
  EXPECT_GT(compared, tried / 2);
}

TEST(MetamorphicTest, AnotherRankNeverRaisesTheIdealStepTime) {
  uint64_t compared = 0;
  for (const uint64_t seed : testing::Seeds(400)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    request.options.cost_model.per_microbatch = 0;
    request.options.cost_model.per_token += 1;
    const auto before = MakeCheckedPlan(request.manifest(), request.options);
    ++request.options.topology.data_parallel;
    const auto after = MakeCheckedPlan(request.manifest(), request.options);
    if (!before.ok() || !after.ok()) continue;
    ++compared;
    for (size_t i = 0; i < before->passes.size(); ++i) {
      ASSERT_LE(after->passes[i].metrics.ideal_step_time, before->passes[i].metrics.ideal_step_time)
          << "seed " << seed << "\n"
          << request.Describe();
    }
  }
  EXPECT_GT(compared, testing::Cases(50));
}

TEST(MetamorphicTest, ALargerBudgetNeverRaisesTheLowerBound) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const std::vector<uint32_t> lengths = RandomLengths(random);
    for (PlanOptions options : EveryFilling()) {
      const auto before = MakeCheckedPlan(lengths, options);
      options.passes[0].max_tokens_per_microbatch += static_cast<uint32_t>(random.Between(1, 500));
      const auto after = MakeCheckedPlan(lengths, options);
      ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
      ASSERT_LE(after->passes[0].metrics.lower_bound_microbatches,
                before->passes[0].metrics.lower_bound_microbatches)
          << "seed " << seed;
    }
  }
}

// One request for each way of the balanced solver.
std::vector<PlanOptions> EveryBalance() {
  std::vector<PlanOptions> all;
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const Effort effort : {Effort::kFast, Effort::kDefault}) {
      for (const Layout layout : {Layout::kPacked, Layout::kPadded}) {
        PlanOptions options = PackedOptions(kBudget, Packer::kBalanced, 2, Sharding::kBalanced);
        options.synchronization = synchronization;
        options.effort = effort;
        options.passes[0].layout = layout;
        all.push_back(options);
        options.passes[0].sequence_counts = EqualCounts::kExact;
        all.push_back(options);
      }
    }
  }
  return all;
}

// For each of EveryBalance and random batches: the plans of the request and of the changed one, if
// both exist.
template <typename Change, typename Compare>
void CompareBalanced(uint64_t batches, Change change, Compare compare) {
  uint64_t compared = 0;
  for (const uint64_t seed : testing::Seeds(batches)) {
    RandomStream random(seed);
    const std::vector<uint32_t> lengths = RandomLengths(random);
    for (const PlanOptions& options : EveryBalance()) {
      PlanOptions changed_options = options;
      std::vector<uint32_t> changed_lengths = lengths;
      change(random, changed_lengths, changed_options);
      const auto before = MakeCheckedPlan(lengths, options);
      const auto after = MakeCheckedPlan(changed_lengths, changed_options);
      ASSERT_EQ(before.ok(), after.ok()) << before.status() << after.status();
      if (!before.ok()) continue;
      ++compared;
      compare(*before, *after);
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
  }
  EXPECT_GT(compared, testing::Cases(batches) * 8);
}

TEST(MetamorphicTest, BalancedPlansDoNotSeeTheOrderOfTheManifest) {
  CompareBalanced(
      15,
      [](RandomStream& random, std::vector<uint32_t>& lengths, PlanOptions&) {
        Shuffle(random, lengths);
      },
      [](const Plan& before, const Plan& after) {
        ASSERT_EQ(SortedBins(before), SortedBins(after));
        ASSERT_EQ(before.passes[0].metrics.predicted_step_time,
                  after.passes[0].metrics.predicted_step_time);
      });
}

TEST(MetamorphicTest, BalancedPlansDoNotSeeTheUnitOfCost) {
  CompareBalanced(
      15,
      [](RandomStream& random, std::vector<uint32_t>&, PlanOptions& options) {
        const double unit = random.OneOf<double>({0.125, 2, 1024, 1.0 / (1 << 30)});
        options.cost_model.per_token *= unit;
        options.cost_model.per_token_squared *= unit;
        options.cost_model.per_microbatch *= unit;
        for (ContextExchange& exchange : options.cost_model.exchange) exchange.per_token *= unit;
      },
      [](const Plan& before, const Plan& after) {
        ASSERT_EQ(before.fingerprint, after.fingerprint);
      });
}

TEST(MetamorphicTest, TheOrderOfMicrobatchesChangesNeitherThemNorTheBalancedStep) {
  CompareBalanced(
      15,
      [](RandomStream& random, std::vector<uint32_t>&, PlanOptions& options) {
        options.passes[0].order = random.OneOf<MicrobatchOrder>(
            {MicrobatchOrder::kLargestFirst, MicrobatchOrder::kSmallAtBothEnds});
      },
      [](const Plan& before, const Plan& after) {
        ASSERT_EQ(SortedBins(before), SortedBins(after));
        ASSERT_NEAR(before.passes[0].metrics.predicted_step_time,
                    after.passes[0].metrics.predicted_step_time,
                    1e-9 * before.passes[0].metrics.predicted_step_time);
      });
}

TEST(MetamorphicTest, WhatCannotMatterDoesNotChangeABalancedPlan) {
  CompareBalanced(
      15,
      [](RandomStream&, std::vector<uint32_t>& lengths, PlanOptions& options) {
        options.passes[0].name = "train";
        options.passes[0].max_sequences_per_microbatch = static_cast<uint32_t>(lengths.size());
        options.mini_batches.size = static_cast<uint32_t>(lengths.size());
      },
      [](const Plan& before, const Plan& after) {
        ASSERT_EQ(before.passes[0].sequence_index, after.passes[0].sequence_index);
        ASSERT_EQ(before.passes[0].microbatch_offsets, after.passes[0].microbatch_offsets);
      });
}

// Of plans that are equally fast in the first pass, that with the faster second one is the answer.
TEST(MetamorphicTest, APassWithARoomierBudgetLeavesTheBalancedOneBeforeItAsFast) {
  CompareBalanced(
      15,
      [](RandomStream&, std::vector<uint32_t>&, PlanOptions& options) {
        options.passes.push_back(options.passes[0]);
        options.passes[1].name = "logprob";
        options.passes[1].max_tokens_per_microbatch *= 2;
      },
      [](const Plan& before, const Plan& after) {
        ASSERT_EQ(before.passes[0].metrics.predicted_step_time,
                  after.passes[0].metrics.predicted_step_time);
      });
}

TEST(MetamorphicTest, ALargerBudgetNeverRaisesTheBoundsOfABalancedPlan) {
  CompareBalanced(
      15,
      [](RandomStream& random, std::vector<uint32_t>&, PlanOptions& options) {
        options.passes[0].max_tokens_per_microbatch +=
            static_cast<uint32_t>(random.Between(1, 500));
      },
      [](const Plan& before, const Plan& after) {
        ASSERT_LE(after.passes[0].metrics.lower_bound_microbatches,
                  before.passes[0].metrics.lower_bound_microbatches);
      });
}

}  // namespace
}  // namespace batchplan
