// Slots with one kind of sequences, compared with the best plans of few sequences.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/make_plan.h"
#include "tests/support/assignments.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

struct KindsRequest {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> kinds;
  PlanOptions options;

  Manifest manifest() const {
    Manifest manifest = {.lengths = lengths};
    manifest.kinds = kinds;
    return manifest;
  }
  std::string Describe() const {
    return absl::StrCat(
        "dp ", options.topology.data_parallel, " sync ", static_cast<int>(options.synchronization),
        " kinds_per_slot ", static_cast<int>(options.passes[0].kinds_per_slot), " empty ",
        options.allow_empty_microbatches, " budget ", options.passes[0].max_tokens_per_microbatch,
        " lengths ", absl::StrJoin(lengths, ","), " kinds ", absl::StrJoin(kinds, ","));
  }
};

KindsRequest RequestOfKinds(uint64_t seed) {
  testing::RandomStream random(seed);
  KindsRequest request;
  PlanOptions& options = request.options;
  const auto count = static_cast<size_t>(random.Between(1, 6));
  options.topology.data_parallel = static_cast<uint32_t>(random.Between(1, 2));
  options.synchronization =
      random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
  options.allow_empty_microbatches = random.Chance(30);
  options.cost_model.per_token_squared = 0.01;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(20, 60));
  pass.kinds_per_slot = random.Chance(50) ? KindsPerSlot::kTogether : KindsPerSlot::kAlike;
  if (random.Chance(15)) {
    pass.layout = Layout::kPadded;
  } else if (random.Chance(20)) {
    pass.sharding = random.OneOf<Sharding>(
        {Sharding::kDealBins, Sharding::kLpt, Sharding::kKarmarkarKarp, Sharding::kContiguous});
  }
  for (size_t i = 0; i < count; ++i) {
    request.lengths.push_back(static_cast<uint32_t>(random.Between(1, 20)));
    request.kinds.push_back(static_cast<uint32_t>(random.Between(0, 2)));
  }
  return request;
}

// The step time of these bins, where slot s of rank r is bin r * slots + s; none if they are no
// plan.
std::optional<double> TimeOf(const KindsRequest& request, const std::vector<uint32_t>& bin_of,
                             uint32_t slots) {
  const uint32_t ranks = request.options.topology.data_parallel;
  const PassOptions& pass = request.options.passes[0];
  const bool padded = pass.layout == Layout::kPadded;
  const auto cost_of = [&](double length) {
    return length + request.options.cost_model.per_token_squared * length * length;
  };
  std::vector<double> tokens(ranks * slots, 0);
  std::vector<double> costs(ranks * slots, 0);
  std::vector<double> widths(ranks * slots, 0);
  std::vector<std::vector<uint32_t>> kinds(ranks * slots);
  for (size_t i = 0; i < bin_of.size(); ++i) {
    tokens[bin_of[i]] += request.lengths[i];
    costs[bin_of[i]] += cost_of(request.lengths[i]);
    widths[bin_of[i]] = std::max<double>(widths[bin_of[i]], request.lengths[i]);
    kinds[bin_of[i]].push_back(request.kinds[i]);
  }
  for (uint32_t bin = 0; bin < ranks * slots; ++bin) {
    const auto count = static_cast<double>(kinds[bin].size());
    if (padded) {
      tokens[bin] = widths[bin] * count;
      costs[bin] = cost_of(widths[bin]) * count;
    }
    if (tokens[bin] > pass.max_tokens_per_microbatch) return std::nullopt;
    if (count == 0 && !request.options.allow_empty_microbatches) return std::nullopt;
  }
  double time = 0;
  std::vector<double> sums(ranks, 0);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    uint32_t with_others = 0;
    double most = 0;
    uint32_t least_kind = 9;
    uint32_t greatest_kind = 0;
    bool has_empty = false;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t bin = rank * slots + slot;
      most = std::max(most, costs[bin]);
      sums[rank] += costs[bin];
      has_empty = has_empty || kinds[bin].empty();
      uint32_t greatest = 0;
      for (const uint32_t kind : kinds[bin]) {
        greatest = std::max(greatest, kind);
        least_kind = std::min(least_kind, kind);
      }
      greatest_kind = std::max(greatest_kind, greatest);
      with_others += greatest > 0 ? 1 : 0;
    }
    time += most;
    if (greatest_kind == 0) continue;
    if (pass.kinds_per_slot == KindsPerSlot::kTogether) {
      if (with_others != ranks) return std::nullopt;
    } else if (has_empty || least_kind != greatest_kind) {
      return std::nullopt;
    }
  }
  return request.options.synchronization == Synchronization::kLockstep ? time
                                                                       : std::ranges::max(sums);
}

std::optional<double> BestOfKinds(const KindsRequest& request) {
  const auto count = static_cast<uint32_t>(request.lengths.size());
  const uint32_t ranks = request.options.topology.data_parallel;
  const uint32_t most =
      request.options.allow_empty_microbatches ? std::min(count, 4u) : std::max(1u, count / ranks);
  return testing::ShortestStep(count, ranks, most,
                               [&](const std::vector<uint32_t>& bin_of, uint32_t slots) {
                                 return TimeOf(request, bin_of, slots);
                               });
}

TEST(KindsTest, AreApartAndNearTheBestOfAllPlans) {
  uint64_t planned = 0;
  uint64_t missed = 0;
  double worst = 1;
  double logarithms = 0;
  for (const uint64_t seed : testing::Seeds(1500)) {
    const KindsRequest request = RequestOfKinds(seed);
    const std::optional<double> best = BestOfKinds(request);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ASSERT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
      missed += best ? 1 : 0;
      continue;
    }
    ++planned;
    // With many empty micro-batches, a plan may need more slots than are tried here.
    if (!best) continue;
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_LE(metrics.lower_bound_step_time, *best * (1 + 1e-9));
    EXPECT_LE(metrics.ideal_step_time, *best * (1 + 1e-9));
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
    if (request.options.passes[0].sharding != Sharding::kBalanced) continue;
    const double ratio = metrics.predicted_step_time / *best;
    worst = std::max(worst, ratio);
    logarithms += std::log(ratio);
  }
  std::cout << planned << " plans, " << std::exp(logarithms / static_cast<double>(planned))
            << " times the optimum, at worst " << worst << "; " << missed
            << " refused that have a plan\n";
  EXPECT_LE(missed, planned / 10);
  EXPECT_LE(logarithms / static_cast<double>(planned), 0.05);
  EXPECT_GT(planned, testing::Cases(1500) / 4);
}

TEST(KindsTest, LargeBatchesKeepThemApartUnderEveryRule) {
  for (const KindsPerSlot rule : {KindsPerSlot::kTogether, KindsPerSlot::kAlike}) {
    for (const Synchronization synchronization :
         {Synchronization::kLockstep, Synchronization::kAccumulated}) {
      KindsRequest request;
      request.lengths = testing::MathsLengths(512, 3);
      for (size_t i = 0; i < request.lengths.size(); ++i) {
        request.kinds.push_back(i % 3 == 0 ? static_cast<uint32_t>(1 + i % 2) : 0);
      }
      request.options.topology.data_parallel = 8;
      request.options.synchronization = synchronization;
      PassOptions pass;
      pass.max_tokens_per_microbatch = 16384;
      pass.min_microbatches = 3;
      pass.microbatch_count_multiple = 2;
      pass.kinds_per_slot = rule;
      PassOptions later;
      later.name = "log-probabilities";
      later.max_tokens_per_microbatch = 32768;
      later.kinds_per_slot = rule;
      request.options.passes = {pass, later};
      const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const PlanMetrics& metrics = plan->passes[0].metrics;
      EXPECT_LE(metrics.predicted_step_time, metrics.ideal_step_time * 1.05);
    }
  }
}

TEST(KindsTest, TooFewOfAKindAreRefusedWithTheirNumber) {
  KindsRequest request;
  request.lengths = {5, 6, 7, 8, 9};
  request.kinds = {0, 0, 0, 0, 4};
  request.options.topology.data_parallel = 2;
  PassOptions& pass = request.options.passes.emplace_back();
  pass.max_tokens_per_microbatch = 20;
  pass.kinds_per_slot = KindsPerSlot::kAlike;
  const auto plan = MakePlan(request.manifest(), request.options);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("1 sequences of kind 4"));
  pass.kinds_per_slot = KindsPerSlot::kTogether;
  EXPECT_THAT(std::string(MakePlan(request.manifest(), request.options).status().message()),
              HasSubstr("kinds other than 0"));
}

}  // namespace
}  // namespace batchplan
