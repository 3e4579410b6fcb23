// Few sequences that share prefixes, compared with their best plan.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iostream>

#include "tests/support/best_shared_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::GeneratedRequest;
using testing::RandomStream;

// A request within the limits of BestSharedPlan: at most six sequences, on up to three ranks.
GeneratedRequest SmallForest(uint64_t seed) {
  RandomStream random(seed);
  GeneratedRequest request;
  PlanOptions& options = request.options;
  options.topology.data_parallel = random.OneOf<uint32_t>({1, 2, 2, 2, 3});
  options.topology.context_parallel = random.OneOf<uint32_t>({1, 1, 2});
  options.synchronization =
      random.OneOf<Synchronization>({Synchronization::kLockstep, Synchronization::kAccumulated});
  options.cost_model = random.OneOf<CostModel>(
      {{1, 0, 0}, {0, 1.0 / 24576, 0}, {0.25, 0.0001, 100}, {1, 0.001, 20, 5}, {}});
  if (random.Chance(30)) {
    options.cost_model.exchange = {{0, 0.3}};
    options.cost_model.exchange_overlaps = random.Chance(50);
  }
  options.allow_empty_microbatches = random.Chance(20);
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(500, 2500));
  pass.length_multiple = random.OneOf<uint32_t>({1, 1, 8, 64});
  pass.rows = random.OneOf<RowPadding>(
      {RowPadding::kNone, RowPadding::kNone, RowPadding::kNone, RowPadding::kCapacity});
  if (random.Chance(10)) pass.min_microbatches = 2;
  if (random.Chance(10)) pass.max_sequences_per_microbatch = 2;
  const uint64_t unit = uint64_t{options.topology.context_parallel} * 2 * pass.length_multiple;
  const uint64_t longest = pass.max_tokens_per_microbatch / unit * unit;
  const uint64_t least = random.Chance(50) ? longest / 2 : 1;
  for (uint64_t count = random.Between(1, 6); count > 0; --count) {
    request.lengths.push_back(static_cast<uint32_t>(random.Between(least, longest)));
    if (random.Chance(10)) {
      options.overlong = OverlongPolicy::kAlone;
      request.lengths.back() += pass.max_tokens_per_microbatch;
    }
  }
  testing::AddSharedPrefixes(seed, &request);
  pass.ignore_shared_prefixes = false;
  pass.sharding = Sharding::kBalanced;
  const size_t count = request.lengths.size();
  if (random.Chance(20)) {
    for (size_t i = 0; i < count; ++i) {
      request.ranks.push_back(
          static_cast<uint32_t>(random.Between(0, options.topology.data_parallel - 1)));
    }
  } else if (random.Chance(15)) {
    pass.sequence_counts = EqualCounts::kExact;
  }
  if (random.Chance(25)) {
    options.mini_batches.groups =
        random.OneOf<GroupPolicy>({GroupPolicy::kSameMiniBatch, GroupPolicy::kSameRank,
                                   GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
    for (size_t i = 0; i < count; ++i) {
      request.group_ids.push_back(static_cast<uint32_t>(random.Between(0, 3)));
      // Groups that are dispatched as a whole.
      if (!request.ranks.empty() && random.Chance(90)) {
        request.ranks[i] = request.group_ids[i] % options.topology.data_parallel;
      }
    }
    if (options.mini_batches.groups == GroupPolicy::kSameMicrobatch) {
      options.overlong = OverlongPolicy::kReject;
    }
  }
  return request;
}

// Whether sequences are only held together by what they share. With given ranks, groups or equal
// counts, the planner may miss a plan that is possible only because rows share.
bool IsFree(const GeneratedRequest& request) {
  const GroupPolicy groups = request.options.mini_batches.groups;
  return request.ranks.empty() && !request.options.passes[0].keeps_counts() &&
         (groups == GroupPolicy::kIgnore || groups == GroupPolicy::kSameMiniBatch);
}

TEST(SharedOptimumTest, IsNeverBelowTheBoundsAndPlannedForWhereThereIsOne) {
  uint64_t planned = 0;
  uint64_t missed = 0;
  double worst = 1;
  double logarithms = 0;
  for (const uint64_t seed : testing::Seeds(2000)) {
    const GeneratedRequest request = SmallForest(seed);
    const auto best = testing::BestSharedPlan(request.manifest(), request.options);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ASSERT_TRUE(testing::IsClearRefusal(plan.status())) << plan.status();
      ASSERT_FALSE(best && IsFree(request)) << plan.status() << "\n" << request.Describe();
      missed += best ? 1 : 0;
      continue;
    }
    ++planned;
    ASSERT_TRUE(best) << request.Describe();
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_GE(metrics.predicted_step_time, best->step_time * (1 - 1e-9));
    EXPECT_LE(metrics.lower_bound_step_time, best->step_time * (1 + 1e-9));
    EXPECT_LE(metrics.ideal_step_time, best->step_time * (1 + 1e-9));
    EXPECT_LE(metrics.lower_bound_microbatches, best->microbatches);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
    const double ratio = metrics.predicted_step_time / best->step_time;
    worst = std::max(worst, ratio);
    logarithms += std::log(ratio);
  }
  std::cout << planned << " plans, " << std::exp(logarithms / static_cast<double>(planned))
            << " times the optimum, at worst " << worst << "; " << missed
            << " refused that have a plan\n";
  EXPECT_LE(missed, planned / 200);
  EXPECT_GT(planned, testing::Cases(2000) / 2);
}

}  // namespace
}  // namespace batchplan
