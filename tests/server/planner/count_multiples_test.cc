// Micro-batches whose sequences are a multiple, and ranks that have a minimum of micro-batches or
// equally many sequences, beside the best of all plans of a few.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/make_plan.h"
#include "tests/support/assignments.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using testing::RandomStream;

struct FewRequest {
  std::vector<uint32_t> lengths;
  PlanOptions options;

  uint32_t multiple() const { return options.passes[0].sequence_count_multiple; }
  std::string Describe() const {
    return absl::StrCat(
        "dp ", options.topology.data_parallel, " sync ", static_cast<int>(options.synchronization),
        " layout ", static_cast<int>(options.passes[0].layout), " sharding ",
        static_cast<int>(options.passes[0].sharding), " multiple ", multiple(), " minimum ",
        options.passes[0].min_microbatches, " in multiples of ",
        options.passes[0].microbatch_count_multiple, " counts ",
        static_cast<int>(options.passes[0].sequence_counts), " budget ",
        options.passes[0].max_tokens_per_microbatch, " lengths ", absl::StrJoin(lengths, ","));
  }
};

FewRequest RequestOfFew(uint64_t seed) {
  RandomStream random(seed);
  FewRequest request;
  PlanOptions& options = request.options;
  options.topology.data_parallel = static_cast<uint32_t>(random.Between(1, 2));
  options.synchronization =
      random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
  options.cost_model.per_token_squared = 0.01;
  options.allow_empty_microbatches = random.Chance(30);
  PassOptions& pass = options.passes.emplace_back();
  pass.sequence_count_multiple = static_cast<uint32_t>(random.Between(2, 3));
  pass.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(30, 80));
  if (random.Chance(25)) {
    pass.layout = Layout::kPadded;
  } else if (random.Chance(20)) {
    pass.sharding = random.OneOf<Sharding>(
        {Sharding::kDealBins, Sharding::kLpt, Sharding::kKarmarkarKarp, Sharding::kContiguous});
  }
  const uint64_t count = pass.sequence_count_multiple * random.Between(1, 3);
  for (uint64_t i = 0; i < std::min<uint64_t>(count, 6); ++i) {
    request.lengths.push_back(static_cast<uint32_t>(random.Between(1, 30)));
  }
  return request;
}

// One that asks for numbers of micro-batches, or of sequences on ranks, besides.
FewRequest RequestOfCounts(uint64_t seed) {
  FewRequest request = RequestOfFew(seed);
  if (request.lengths.size() > 5) request.lengths.pop_back();
  RandomStream random(seed ^ 0x636F756E74);
  PassOptions& pass = request.options.passes[0];
  pass.sequence_count_multiple = static_cast<uint32_t>(random.OneOf<uint64_t>({1, 1, 2}));
  pass.sharding = Sharding::kBalanced;
  request.options.allow_empty_microbatches = random.Chance(15);
  switch (random.Between(0, 3)) {
    case 0:
      pass.min_microbatches = 2;
      break;
    case 1:
      pass.min_microbatches = 3;
      break;
    case 2:
      pass.microbatch_count_multiple = 2;
      break;
    default:
      pass.sequence_counts = random.Chance(50) ? EqualCounts::kExact : EqualCounts::kWithinOne;
  }
  return request;
}

// What a step takes of these bins, slot s of rank r being number r * slots + s; nothing if they
// are no plan.
std::optional<double> TimeOf(const FewRequest& request, const std::vector<uint32_t>& bin_of,
                             uint32_t slots) {
  const uint32_t ranks = request.options.topology.data_parallel;
  const PassOptions& pass = request.options.passes[0];
  std::vector<double> longest(ranks * slots, 0);
  std::vector<double> tokens(ranks * slots, 0);
  std::vector<double> costs(ranks * slots, 0);
  std::vector<uint32_t> counts(ranks * slots, 0);
  const auto cost_of = [](double length) { return length + 0.01 * length * length; };
  for (size_t i = 0; i < bin_of.size(); ++i) {
    const double length = request.lengths[i];
    longest[bin_of[i]] = std::max(longest[bin_of[i]], length);
    tokens[bin_of[i]] += length;
    costs[bin_of[i]] += cost_of(length);
    ++counts[bin_of[i]];
  }
  double time = 0;
  std::vector<double> sums(ranks, 0);
  std::vector<uint32_t> of_rank(ranks, 0);
  if (slots < pass.min_microbatches || slots % pass.microbatch_count_multiple != 0) {
    return std::nullopt;
  }
  for (uint32_t slot = 0; slot < slots; ++slot) {
    double most = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t bin = rank * slots + slot;
      if (pass.layout == Layout::kPadded) {
        tokens[bin] = longest[bin] * counts[bin];
        costs[bin] = cost_of(longest[bin]) * counts[bin];
      }
      if (counts[bin] % request.multiple() != 0) return std::nullopt;
      of_rank[rank] += counts[bin];
      if (counts[bin] == 0 && !request.options.allow_empty_microbatches) return std::nullopt;
      if (tokens[bin] > pass.max_tokens_per_microbatch) return std::nullopt;
      most = std::max(most, costs[bin]);
      sums[rank] += costs[bin];
    }
    time += most;
  }
  const auto [fewest, most] = std::ranges::minmax(of_rank);
  if (pass.keeps_counts() && most - fewest > 0) {
    const bool within_one = pass.sequence_counts == EqualCounts::kWithinOne && most - fewest == 1;
    if (!within_one) return std::nullopt;
  }
  return request.options.synchronization == Synchronization::kLockstep ? time
                                                                       : std::ranges::max(sums);
}

std::optional<double> BestOfFew(const FewRequest& request) {
  const auto count = static_cast<uint32_t>(request.lengths.size());
  const uint32_t ranks = request.options.topology.data_parallel;
  const uint32_t in_slot =
      request.multiple() * (request.options.allow_empty_microbatches ? 1 : ranks);
  return testing::ShortestStep(count, ranks, count / in_slot,
                               [&](const std::vector<uint32_t>& bin_of, uint32_t slots) {
                                 return TimeOf(request, bin_of, slots);
                               });
}

struct Comparison {
  uint64_t planned = 0;
  // Requests that are refused and have a plan.
  uint64_t missed = 0;
  // Of `balanced` over the best of all plans, the geometric mean's logarithm.
  double logarithm = 0;
};

// That no bound is above the best of all plans.
Comparison CompareWithAllPlans(FewRequest (*request_of)(uint64_t), uint64_t requests) {
  Comparison all;
  uint64_t balanced = 0;
  double worst = 1;
  double sharpness = 0;
  for (const uint64_t seed : testing::Seeds(requests)) {
    const FewRequest request = request_of(seed);
    const std::optional<double> best = BestOfFew(request);
    const auto plan = testing::MakeCheckedPlan(request.lengths, request.options);
    if (!plan.ok()) {
      EXPECT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
      all.missed += best ? 1 : 0;
      continue;
    }
    ++all.planned;
    if (!best) continue;
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_LE(metrics.lower_bound_step_time, *best * (1 + 1e-9)) << "seed " << seed << "\n"
                                                                 << request.Describe();
    if (request.options.passes[0].sharding != Sharding::kBalanced) continue;
    ++balanced;
    const double ratio = metrics.predicted_step_time / *best;
    worst = std::max(worst, ratio);
    all.logarithm += std::log(ratio);
    sharpness += metrics.lower_bound_step_time / *best;
  }
  const auto number = static_cast<double>(balanced);
  all.logarithm /= number;
  std::cout << all.planned << " plans, " << std::exp(all.logarithm)
            << " times the optimum, at worst " << worst << ", bounds at " << sharpness / number
            << " of it; " << all.missed << " refused that have a plan\n";
  return all;
}

TEST(CountMultiplesTest, AreKeptAndNearTheBestOfAllPlans) {
  const Comparison all = CompareWithAllPlans(RequestOfFew, 1000);
  EXPECT_GT(all.planned, testing::Cases(1000) / 4);
  EXPECT_LE(all.missed, all.planned / 20);
  EXPECT_LE(all.logarithm, 0.02);
}

TEST(CountMultiplesTest, WithNumbersOfMicrobatchesOrOnRanksToo) {
  const Comparison all = CompareWithAllPlans(RequestOfCounts, 1000);
  EXPECT_GT(all.planned, testing::Cases(1000) / 4);
  EXPECT_LE(all.missed, all.planned / 20);
  EXPECT_LE(all.logarithm, 0.02);
}

// Whatever else a request asks for.
TEST(CountMultiplesTest, AreKeptByAnyRequest) {
  uint64_t planned = 0;
  uint64_t all = 0;
  for (const uint64_t seed : testing::Seeds(600)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    if (seed % 5 == 0) testing::AddSelection(seed, &request);
    if (seed % 3 == 0) testing::AddLoads(seed, &request);
    testing::AddMultiples(seed, &request);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    ++all;
    if (plan.ok()) {
      ++planned;
    } else {
      EXPECT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
    }
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  std::cout << planned << " of " << all << " planned\n";
  EXPECT_GT(planned, all / 12);
}

TEST(CountMultiplesTest, LargeBatchesLoseLittleByThem) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    PlanOptions options;
    options.topology.data_parallel = 8;
    options.synchronization = synchronization;
    PassOptions& pass = options.passes.emplace_back();
    pass.max_tokens_per_microbatch = 16384;
    const std::vector<uint32_t> lengths = testing::MathsLengths(1024, 3);
    const auto any = testing::MakeCheckedPlan(lengths, options);
    pass.sequence_count_multiple = 4;
    const auto multiples = testing::MakeCheckedPlan(lengths, options);
    ASSERT_TRUE(any.ok() && multiples.ok()) << multiples.status();
    const double time = multiples->passes[0].metrics.predicted_step_time;
    std::cout << time / any->passes[0].metrics.predicted_step_time << " times as long\n";
    EXPECT_LE(time, any->passes[0].metrics.predicted_step_time * 1.02);
  }
}

TEST(CountMultiplesTest, WhatDoesNotDivideIsRefusedWithItsNumber) {
  PlanOptions options = testing::PackedOptions(100, Packer::kBalanced);
  options.passes[0].sequence_count_multiple = 2;
  const auto message = [&](const std::vector<uint32_t>& lengths) {
    return std::string(MakePlan({.lengths = lengths}, options).status().message());
  };
  EXPECT_THAT(message({5, 6, 7}), HasSubstr("3 sequences, which sequence_count_multiple 2"));
  EXPECT_THAT(message({90, 80, 70, 60}), HasSubstr("max_tokens_per_microbatch 100"));
  options.passes[0].sequence_count_multiple = 0;
  EXPECT_THAT(message({5, 6}), HasSubstr("sequence_count_multiple is 0; it must be 1 to 1048576"));
  options.passes[0].sequence_count_multiple = 4;
  options.passes[0].max_sequences_per_microbatch = 3;
  EXPECT_THAT(message({5, 6, 7, 8}), HasSubstr("max_sequences_per_microbatch is 3"));
  options.passes[0].max_sequences_per_microbatch = 0;
  options.overlong = OverlongPolicy::kAlone;
  EXPECT_THAT(message({5, 6, 7, 8}), HasSubstr("OVERLONG_POLICY_ALONE"));
  options.overlong = OverlongPolicy::kReject;
  options.selection = Selection{.max_tokens = 20};
  EXPECT_THAT(message({5, 6, 7, 8}), HasSubstr("selection.max_tokens"));
}

}  // namespace
}  // namespace batchplan
