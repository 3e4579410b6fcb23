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

// The bins as what they hold, in an order of their own.
std::vector<std::vector<uint32_t>> SortedBins(const Plan& plan) {
  std::vector<std::vector<uint32_t>> bins = LengthsOf(plan.passes[0]);
  for (std::vector<uint32_t>& bin : bins) std::sort(bin.begin(), bin.end());
  std::sort(bins.begin(), bins.end());
  return bins;
}

TEST(MetamorphicTest, DecreasingPackersDoNotSeeTheOrderOfTheManifest) {
  for (uint64_t seed = 0; seed < testing::Cases(200); ++seed) {
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
  for (uint64_t seed = 0; seed < testing::Cases(100); ++seed) {
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
      if (!before.ok()) continue;
      ASSERT_EQ(before->passes[0].microbatches_per_rank, after->passes[0].microbatches_per_rank)
          << "seed " << seed;
      ASSERT_EQ(before->passes[0].metrics.lower_bound_microbatches,
                after->passes[0].metrics.lower_bound_microbatches)
          << "seed " << seed;
    }
  }
}

TEST(MetamorphicTest, AnotherRankNeverRaisesTheIdealStepTime) {
  uint64_t compared = 0;
  for (uint64_t seed = 0; seed < testing::Cases(1000); ++seed) {
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
  EXPECT_GT(compared, 100u);
}

TEST(MetamorphicTest, ALargerBudgetNeverRaisesTheLowerBound) {
  for (uint64_t seed = 0; seed < testing::Cases(100); ++seed) {
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

}  // namespace
}  // namespace batchplan
