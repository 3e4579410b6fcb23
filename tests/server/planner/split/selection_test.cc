// Some of what waits is planned: what is taken keeps every rule, nothing is lost, and the choice is
// as good as trying all of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

struct Pool {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> groups = {};
  std::vector<uint32_t> ages = {};
};

PlanOptions Options(uint32_t ranks, const Selection& selection) {
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.passes.push_back(PresetPass("balanced", options.topology).value());
  options.passes[0].max_tokens_per_microbatch = 100;
  options.selection = selection;
  return options;
}

absl::StatusOr<Plan> PlanOf(const Pool& pool, const PlanOptions& options) {
  return testing::MakeCheckedPlan(
      {.lengths = pool.lengths, .group_ids = pool.groups, .ages = pool.ages}, options);
}

std::string ErrorOf(const Pool& pool, const PlanOptions& options) {
  const absl::StatusOr<Plan> plan = PlanOf(pool, options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(SelectionTest, TakesTheFirstWithoutOvertaking) {
  const Plan plan = PlanOf({.lengths = {90, 10, 90, 10, 50}}, Options(2, {.sequences = 3})).value();
  EXPECT_THAT(plan.deferred, ElementsAre(3, 4));
  EXPECT_THAT(plan.passes[0].sequence_index, UnorderedElementsAre(0, 1, 2));
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.mean_length_deferred, 30);
}

TEST(SelectionTest, LetsLikeLengthsMeet) {
  const Plan plan =
      PlanOf({.lengths = {90, 10, 90, 10}}, Options(2, {.sequences = 2, .max_overtaking = 1}))
          .value();
  EXPECT_THAT(plan.deferred, ElementsAre(1, 3));
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.step_efficiency, 1);
}

TEST(SelectionTest, LetsLikeLengthsMeetInGroupsThatDifferInSize) {
  PlanOptions options = Options(2, {.sequences = 2, .max_overtaking = 1});
  options.topology.dynamic_context = DynamicContext{.min_size = 1, .max_size = 1};
  options.cost_model.per_microbatch = 1024;
  const Plan plan = PlanOf({.lengths = {90, 10, 90, 10}}, options).value();
  EXPECT_THAT(plan.deferred, ElementsAre(1, 3));
}

TEST(SelectionTest, TooOldIsOutAndAlmostTooOldIsIn) {
  const Plan plan = PlanOf({.lengths = {10, 20, 30, 40}, .groups = {}, .ages = {0, 3, 0, 2}},
                           Options(1, {.sequences = 2, .max_age = 2}))
                        .value();
  ASSERT_EQ(plan.excluded.size(), 1u);
  EXPECT_EQ(plan.excluded[0].index, 1u);
  EXPECT_EQ(plan.excluded[0].length, 20u);
  EXPECT_EQ(plan.excluded[0].reason, ExclusionReason::kExpired);
  EXPECT_THAT(plan.deferred, ElementsAre(2));
  EXPECT_EQ(plan.passes[0].metrics.largest_age, 2u);
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.mean_age, 1);
}

TEST(SelectionTest, GroupsAreWholeAndAsOldAsTheirOldest) {
  const Plan plan = PlanOf({.lengths = {10, 20, 30, 40, 50, 60},
                            .groups = {7, 5, 7, 5, 9, 9},
                            .ages = {0, 0, 4, 0, 3, 0}},
                           Options(1, {.groups = 1, .max_age = 3}))
                        .value();
  EXPECT_THAT(plan.deferred, ElementsAre(1, 3));
  EXPECT_THAT(plan.passes[0].sequence_index, UnorderedElementsAre(4, 5));
  EXPECT_EQ(plan.excluded.size(), 2u);
}

TEST(SelectionTest, GroupsAreDroppedWholeEvenIfNothingElseHeedsThem) {
  PlanOptions options = Options(1, {.groups = 1});
  options.overlong = OverlongPolicy::kDrop;
  const Plan plan = PlanOf({.lengths = {50, 500, 20, 30}, .groups = {1, 1, 2, 2}}, options).value();
  EXPECT_THAT(plan.passes[0].sequence_index, UnorderedElementsAre(2, 3));
  EXPECT_EQ(plan.excluded.size(), 2u);
  EXPECT_TRUE(plan.deferred.empty());
}

TEST(SelectionTest, ChoosesFromALargePoolAsFromASmallOne) {
  // As many sequences as no pass could plan in these mini-batches.
  PlanOptions options = Options(2, {.sequences = 4, .max_overtaking = 2});
  options.mini_batches.size = 2;
  options.passes[0].min_microbatches = 512;
  options.allow_empty_microbatches = true;
  std::vector<uint32_t> lengths = {90, 90, 10, 80, 10, 80};
  lengths.resize(4000, 10);
  const Plan plan = PlanOf({.lengths = lengths}, options).value();
  EXPECT_THAT(plan.passes[0].sequence_index, UnorderedElementsAre(0, 1, 2, 4));
}

TEST(SelectionTest, KeepsWithinTokens) {
  const Plan plan = PlanOf({.lengths = {60, 50, 40, 30, 10}},
                           Options(1, {.max_tokens = 119, .max_overtaking = 9}))
                        .value();
  EXPECT_EQ(plan.passes[0].sequence_index.size(), 2u);
}

TEST(SelectionTest, TakingAllLeavesNothing) {
  const Pool pool = {.lengths = {10, 20, 30}};
  const Plan all = PlanOf(pool, Options(1, {.sequences = 3, .max_overtaking = 2})).value();
  EXPECT_TRUE(all.deferred.empty());
  PlanOptions whole = Options(1, {});
  whole.selection.reset();
  EXPECT_EQ(all.fingerprint, PlanOf(pool, whole)->fingerprint);
}

TEST(SelectionTest, WhatPadToDoesNotHoldIsNamedByItsPlaceInTheManifest) {
  const std::vector<uint32_t> lengths = {10, 20, 60, 30};
  const std::vector<uint32_t> ages(4, 0);
  PlanOptions options = Options(1, {.sequences = 2, .max_age = 1});
  EXPECT_THAT(
      std::string(
          MakePlan({.lengths = lengths, .pad_to = 50, .ages = ages}, options).status().message()),
      HasSubstr("manifest.pad_to is 50, but sequence 2 has 60 tokens"));
}

TEST(SelectionTest, RefusesWhatCannotBe) {
  EXPECT_THAT(ErrorOf({.lengths = {10, 20}}, Options(1, {.sequences = 3})),
              HasSubstr("selection.sequences is 3, but 2 sequences may be taken: 1 missing"));
  EXPECT_THAT(ErrorOf({.lengths = {10, 20}, .groups = {}, .ages = {9, 0}},
                      Options(1, {.sequences = 2, .max_age = 3})),
              AllOf(HasSubstr("1 missing"), HasSubstr("1 sequences are too old for max_age 3")));
  EXPECT_THAT(ErrorOf({.lengths = {10, 20, 30}, .groups = {}, .ages = {3, 3, 0}},
                      Options(1, {.sequences = 1, .max_age = 3})),
              HasSubstr("2 sequences are of age 3, max_age, and must be taken now"));
  EXPECT_THAT(ErrorOf({.lengths = {10}}, Options(1, {.sequences = 1, .max_age = 3})),
              HasSubstr("manifest.ages is empty"));
  EXPECT_THAT(ErrorOf({.lengths = {10}}, Options(1, {.groups = 1})),
              HasSubstr("manifest.group_ids is empty"));
  EXPECT_THAT(ErrorOf({.lengths = {10}}, Options(1, {.sequences = 1, .groups = 1})),
              HasSubstr("exactly one of them must be at least 1"));
  PlanOptions halves = Options(1, {.sequences = 4});
  halves.mini_batches.size = 3;
  EXPECT_THAT(ErrorOf({.lengths = {10, 10, 10, 10, 10}}, halves),
              HasSubstr("mini_batches.size is 3, which does not divide selection.sequences 4"));
  halves.selection = {.max_tokens = 20};
  halves.passes[0].max_tokens_per_microbatch = 10;
  EXPECT_THAT(ErrorOf({.lengths = {10, 10, 10}}, halves),
              HasSubstr("mini_batches.size is 3, which does not divide the 2 sequences that "
                        "first in, first out takes where selection.max_tokens is 20"));
  PlanOptions pairs = Options(1, {.groups = 3});
  pairs.mini_batches.group_count = 2;
  const Pool four_groups = {.lengths = {10, 10, 10, 10}, .groups = {1, 2, 3, 4}};
  EXPECT_THAT(ErrorOf(four_groups, pairs),
              HasSubstr("mini_batches.group_count is 2, which does not divide selection.groups 3"));
  pairs.selection = {.max_tokens = 30};
  EXPECT_THAT(ErrorOf(four_groups, pairs),
              HasSubstr("mini_batches.group_count is 2, which does not divide the 3 groups that "
                        "first in, first out takes where selection.max_tokens is 30"));
  EXPECT_THAT(ErrorOf({.lengths = {60}}, Options(1, {.max_tokens = 59})),
              HasSubstr("selection.max_tokens is 59, but what waits first takes 60 tokens"));
  EXPECT_THAT(
      ErrorOf({.lengths = {10, 10, 10, 10}, .groups = {1, 1, 2, 2}}, Options(1, {.sequences = 3})),
      HasSubstr("the first add up to 2, 1 missing"));
  EXPECT_THAT(
      ErrorOf({.lengths = {10}, .groups = {}, .ages = {1, 2}}, Options(1, {.sequences = 1})),
      HasSubstr("manifest.ages has 2 entries"));
}

TEST(SelectionTest, KeepsEveryPromiseOfAnyRequest) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(2000);
  for (const uint64_t seed : testing::Seeds(2000)) {
    testing::GeneratedRequest request =
        seed % 3 == 0 ? testing::GenerateDynamicRequest(seed) : testing::GenerateRequest(seed);
    testing::AddSelection(seed, &request);
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ++refused;
      ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument)
          << "seed " << seed << ": " << plan.status() << "\n"
          << request.Describe();
    }
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  std::cout << refused << " of " << requests << " requests refused\n";
  EXPECT_LT(refused, requests * 3 / 4);
}

TEST(DelayTest, KeepsEveryPromiseOfAnyRequest) {
  uint64_t moved = 0;
  for (const uint64_t seed : testing::Seeds(1500)) {
    testing::GeneratedRequest request =
        seed % 3 == 0 ? testing::GenerateDynamicRequest(seed) : testing::GenerateRequest(seed);
    testing::RandomStream random(seed);
    request.options.mini_batches.max_delay = static_cast<uint32_t>(random.Between(1, 4));
    PlanOptions without = request.options;
    without.mini_batches.max_delay = 0;
    const auto plan = testing::MakeCheckedPlan(request.manifest(), request.options);
    const auto before = MakePlan(request.manifest(), without);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
    // What can't be planned as it comes, another order may.
    if (!before.ok()) continue;
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status();
    double shorter = 0;
    for (size_t i = 0; i < plan->passes.size(); ++i) {
      shorter += before->passes[i].metrics.predicted_step_time -
                 plan->passes[i].metrics.predicted_step_time;
      moved += plan->passes[i].metrics.moved_share > 0 ? 1 : 0;
    }
    EXPECT_GE(shorter, -1e-6) << "seed " << seed;
  }
  std::cout << moved << " steps with moved sequences\n";
  EXPECT_GT(moved, testing::Cases(1500) / 100);
}

TEST(DelayTest, LongSequencesMeet) {
  PlanOptions options = Options(2, {});
  options.selection.reset();
  options.mini_batches.size = 2;
  const Pool pool = {.lengths = {100, 1, 100, 1}};
  EXPECT_DOUBLE_EQ(PlanOf(pool, options)->passes[0].metrics.moved_share, 0);
  options.mini_batches.max_delay = 1;
  const Plan plan = PlanOf(pool, options).value();
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.moved_share, 0.5);
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.mean_delay, 0.25);
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.step_efficiency, 1);
}

TEST(DelayTest, GroupsThatAreCountedMeetWhateverTheirSize) {
  PlanOptions options = Options(2, {});
  options.selection.reset();
  options.mini_batches.group_count = 2;
  const Pool pool = {.lengths = {100, 1, 1, 100, 1, 1, 1}, .groups = {1, 2, 2, 3, 4, 4, 4}};
  EXPECT_DOUBLE_EQ(PlanOf(pool, options)->passes[0].metrics.moved_share, 0);
  options.mini_batches.max_delay = 1;
  const Plan plan = PlanOf(pool, options).value();
  // Group 3 for group 2, of twice as many.
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.moved_share, 3.0 / 7);
  EXPECT_DOUBLE_EQ(plan.passes[0].metrics.predicted_step_time,
                   PlanOf(pool, options)->passes[0].metrics.predicted_step_time);
  EXPECT_THAT(plan.passes[0].microbatches_per_rank, ElementsAre(1, 1));
}

TEST(SelectionTest, TakesMiniBatchesOfGroups) {
  PlanOptions options = Options(1, {.groups = 4, .max_overtaking = 1});
  options.mini_batches.group_count = 2;
  const Pool pool = {.lengths = {10, 10, 20, 30, 5, 5, 5, 40}, .groups = {1, 1, 2, 3, 4, 4, 4, 5}};
  const Plan plan = PlanOf(pool, options).value();
  EXPECT_EQ(plan.passes[0].microbatches_per_rank.size(), 2);
  options.mini_batches.group_count = 3;
  options.mini_batches.last = LastMiniBatch::kSmaller;
  EXPECT_EQ(PlanOf(pool, options)->passes[0].microbatches_per_rank.size(), 2);
}

// Predicted over ideal step time.
double RatioOf(const Plan& plan) {
  const PlanMetrics& metrics = plan.passes[0].metrics;
  return metrics.predicted_step_time / metrics.ideal_step_time;
}

TEST(SelectionTest, IsNeverWorseThanFirstInFirstOutAndNearTheBestOfAll) {
  double furthest = 1;
  int compared = 0;
  for (const uint64_t seed : testing::Seeds(60)) {
    testing::RandomStream random(seed);
    Pool pool;
    const uint32_t waiting = 10;
    for (uint32_t i = 0; i < waiting; ++i) {
      pool.lengths.push_back(static_cast<uint32_t>(random.Between(1, 100)));
    }
    const auto taken = static_cast<uint32_t>(random.Between(3, 7));
    const auto overtaking = static_cast<uint32_t>(random.Between(1, 4));
    const auto ranks = static_cast<uint32_t>(random.Between(2, 3));
    PlanOptions options = Options(ranks, {.sequences = taken, .max_overtaking = overtaking});
    options.synchronization =
        random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
    const absl::StatusOr<Plan> chosen = PlanOf(pool, options);
    PlanOptions first_out = options;
    first_out.selection->max_overtaking = 0;
    const absl::StatusOr<Plan> first = PlanOf(pool, first_out);
    if (!first.ok()) continue;
    ASSERT_TRUE(chosen.ok()) << "seed " << seed << ": " << chosen.status();
    const double ours = RatioOf(*chosen);
    EXPECT_LE(ours, RatioOf(*first) * (1 + 1e-9)) << "seed " << seed;

    options.selection.reset();
    double best = ours;
    for (uint32_t subset = 0; subset < (1U << waiting); ++subset) {
      Pool part;
      bool fair = true;
      for (uint32_t i = 0; i < waiting; ++i) {
        if ((subset >> i & 1) != 0) {
          part.lengths.push_back(pool.lengths[i]);
        } else {
          fair = fair && static_cast<uint32_t>(__builtin_popcount(subset >> i)) <= overtaking;
        }
      }
      if (!fair || part.lengths.size() != taken) continue;
      const absl::StatusOr<Plan> plan = MakePlan({.lengths = part.lengths}, options);
      if (plan.ok()) best = std::min(best, RatioOf(*plan));
    }
    ++compared;
    furthest = std::max(furthest, ours / best);
    EXPECT_LE(ours, best * 1.15) << "seed " << seed;
  }
  EXPECT_GT(compared, static_cast<int>(testing::Cases(60) / 2));
  std::cout << compared << " compared, at most " << furthest << " times the best choice\n";
}

}  // namespace
}  // namespace batchplan
