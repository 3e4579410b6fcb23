// Plans of groups that differ in size, from request to metrics, each held against the checker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/presets.h"
#include "tests/server/planner/groups/best_slots.h"
#include "tests/server/planner/groups/problems.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeCheckedPlan;

// A pool of dp * cp ranks whose budget is of cp of them, under costs with an exchange.
PlanOptions DynamicOptions(uint32_t dp, uint32_t cp, uint32_t budget) {
  PlanOptions options;
  options.topology = {.data_parallel = dp, .context_parallel = cp};
  options.topology.dynamic_context.emplace();
  options.cost_model.per_microbatch = 1024;
  options.cost_model.exchange = {{.up_to_size = 8, .per_token = 0.02},
                                 {.up_to_size = 0, .per_token = 0.065}};
  options.passes.emplace_back().max_tokens_per_microbatch = budget;
  return options;
}

TEST(DynamicPlanTest, RandomRequestsGetAPlanThatKeepsEveryPromiseOrAClearRefusal) {
  uint64_t refused = 0;
  const uint64_t requests = testing::Cases(2000);
  for (const uint64_t seed : testing::Seeds(2000)) {
    const testing::GeneratedRequest request = testing::GenerateDynamicRequest(seed);
    const auto plan = MakeCheckedPlan(request.manifest(), request.options);
    if (!plan.ok()) {
      ++refused;
      ASSERT_TRUE(testing::IsClearRefusal(plan.status()))
          << "seed " << seed << ": " << plan.status() << "\n"
          << request.Describe();
    }
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
  }
  std::cout << refused << " of " << requests << " requests refused\n";
  EXPECT_LT(refused, requests / 2);
}

// What one pass of a request asks, as brute force takes it too.
TEST(DynamicPlanTest, SmallRequestsArePlannedExactlyWhereSomeSlotsKeepTheLimits) {
  uint64_t planned = 0;
  const uint64_t requests = testing::Cases(500);
  for (const uint64_t seed : testing::Seeds(500)) {
    testing::RandomStream random(seed);
    const auto cp = static_cast<uint32_t>(random.Between(1, 2));
    const auto dp = static_cast<uint32_t>(random.Between(1, 8 / cp));
    testing::PoolOptions pool;
    pool.pool = dp * cp;
    pool.budget = static_cast<uint32_t>(random.Between(8, 64));
    pool.min_size = std::min(random.OneOf<uint32_t>({1, 1, 2, 4}), std::bit_floor(pool.pool));
    pool.max_size = random.Chance(50) ? 0 : std::min(2 * pool.min_size, pool.pool);
    pool.length_multiple = random.OneOf<uint32_t>({1, 1, 4});
    if (SizesOf(pool).empty()) pool.max_size = 0;
    PlanOptions options;
    options.topology = {.data_parallel = dp, .context_parallel = cp};
    options.topology.dynamic_context = {pool.min_size, pool.max_size};
    options.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault});
    options.allow_empty_microbatches = random.Chance(15);
    PassOptions& pass = options.passes.emplace_back();
    pass.max_tokens_per_microbatch = pool.budget * cp;
    pass.length_multiple = pool.length_multiple;
    if (random.Chance(20)) pass.max_sequences_per_microbatch = random.OneOf<uint32_t>({1, 2, 3});
    if (random.Chance(30)) pass.min_microbatches = random.OneOf<uint32_t>({1, 2, 3, 4});
    if (random.Chance(30)) pass.microbatch_count_multiple = random.OneOf<uint32_t>({2, 3});
    const bool grouped = random.Chance(20);
    if (grouped) options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
    const uint32_t longest = pool.budget * random.OneOf<uint32_t>({1, 1, 2, pool.pool});
    std::vector<std::vector<uint32_t>> items(random.Between(1, 7));
    std::vector<uint32_t> lengths;
    std::vector<uint32_t> ids;
    for (uint32_t item = 0; item < items.size(); ++item) {
      items[item].resize(grouped ? random.Between(1, 3) : 1);
      for (uint32_t& length : items[item]) {
        length = static_cast<uint32_t>(random.Between(1, random.Chance(50) ? longest : 8));
        lengths.push_back(length);
        if (grouped) ids.push_back(item);
      }
    }
    ContextProblem problem = ContextOf(items, pool);
    problem.max_sequences = pass.max_sequences_per_microbatch;
    problem.slots = {.minimum = pass.min_microbatches, .multiple = pass.microbatch_count_multiple};
    problem.allow_empty = options.allow_empty_microbatches;
    const bool possible = testing::BestLockstep(problem).Time().has_value();
    const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = ids}, options);
    ASSERT_EQ(plan.ok(), possible) << "seed " << seed << ": " << plan.status() << "\n"
                                   << testing::Describe(problem);
    planned += possible;
  }
  std::cout << planned << " of " << requests << " requests planned\n";
}

TEST(DynamicPlanTest, OneLongSequenceTakesItsRanksAndTheOthersTheirs) {
  // Of 8 ranks with room for 1,000 tokens each, the long one needs four.
  std::vector<uint32_t> lengths(41, 100);
  lengths[7] = 4000;
  PlanOptions options = DynamicOptions(8, 1, 1000);
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.01}};
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PassPlan& pass = plan->passes[0];
  EXPECT_THAT(pass.microbatches_per_rank, ElementsAre(1));
  EXPECT_THAT(pass.context_sizes, ElementsAre(4, 1, 1, 1, 1));
  EXPECT_THAT(testing::MicrobatchesOf(pass)[0], ElementsAre(7));
}

TEST(DynamicPlanTest, PoolsOfAnyNumberOfRanksArePlannedByBothPresets) {
  for (const uint32_t pool : {1u, 2u, 3u, 5u, 6u, 7u, 12u, 24u, 96u}) {
    for (const absl::string_view preset : {"balanced", "megatron_dynamic_cp"}) {
      for (const uint32_t min_size : {1u, 2u, 4u}) {
        if (min_size > pool) continue;
        PlanOptions options = DynamicOptions(pool, 1, 4096);
        options.topology.dynamic_context->min_size = min_size;
        options.passes[0].sharding = PresetPass(preset, options.topology)->sharding;
        std::vector<uint32_t> lengths = testing::MathsLengths(200, pool);
        for (uint32_t& length : lengths) length = std::min(length, 4096 * min_size);
        const auto plan = MakeCheckedPlan(lengths, options);
        EXPECT_TRUE(plan.ok()) << preset << " pool " << pool << " from " << min_size << ": "
                               << plan.status();
      }
    }
  }
}

TEST(DynamicPlanTest, NoneIsSlowerThanAnyFixedSizeOrMegatronsScheduler) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const uint64_t seed : {1, 2}) {
      std::vector<uint32_t> lengths = testing::LongCotLengths(160, seed);
      PlanOptions options = DynamicOptions(4, 4, 65536);
      options.synchronization = synchronization;
      const auto dynamic = MakeCheckedPlan(lengths, options);
      ASSERT_TRUE(dynamic.ok()) << dynamic.status();
      const double time = dynamic->passes[0].metrics.predicted_step_time * (1 - 1e-9);
      EXPECT_LE(dynamic->passes[0].metrics.lower_bound_step_time,
                dynamic->passes[0].metrics.predicted_step_time);
      PlanOptions megatron = options;
      megatron.passes[0].sharding = Sharding::kMegatronDynamicCp;
      const auto as_megatron = MakeCheckedPlan(lengths, megatron);
      ASSERT_TRUE(as_megatron.ok()) << as_megatron.status();
      EXPECT_LE(time, as_megatron->passes[0].metrics.predicted_step_time);
      for (const uint32_t size : {4u, 8u, 16u}) {
        PlanOptions fixed = options;
        fixed.topology = {.data_parallel = 16 / size, .context_parallel = size};
        fixed.passes[0].max_tokens_per_microbatch = 65536 / 4 * size;
        fixed.effort = Effort::kFast;
        const auto plan = MakeCheckedPlan(lengths, fixed);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_LE(time, plan->passes[0].metrics.predicted_step_time) << "CP " << size;
      }
    }
  }
}

// Lengths up to a rank's budget, so that every size that divides the pool is one to plan with
// alone.
TEST(DynamicPlanTest, RequestsThatAFixedSizePlansAreNeitherRefusedNorSlower) {
  for (const uint64_t seed : testing::Seeds(150)) {
    testing::RandomStream random(seed);
    const auto pool = random.OneOf<uint32_t>({2, 3, 4, 6, 8, 12});
    const auto budget = static_cast<uint32_t>(random.Between(48, 300)) / 24 * 24;
    PlanOptions options = DynamicOptions(pool, 1, budget);
    options.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault});
    options.synchronization =
        random.OneOf<Synchronization>({Synchronization::kLockstep, Synchronization::kAccumulated});
    PassOptions& first = options.passes[0];
    if (random.Chance(40)) {
      first.microbatch_count_multiple = static_cast<uint32_t>(random.Between(1, 4));
    }
    if (random.Chance(20)) first.max_sequences_per_microbatch = 6;
    if (random.Chance(40)) {
      PassOptions second = first;
      second.name = "second";
      second.max_tokens_per_microbatch *= random.OneOf<uint32_t>({1, 2, 4});
      second.microbatch_count_multiple = static_cast<uint32_t>(random.Between(1, 3));
      options.passes.push_back(second);
    }
    std::vector<uint32_t> lengths(random.Between(pool, 60));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, budget));
    const auto dynamic = MakeCheckedPlan(lengths, options);
    for (uint32_t size = 1; size <= pool; size = 2 * size > pool && size < pool ? pool : 2 * size) {
      if (pool % size != 0) continue;
      PlanOptions fixed = options;
      fixed.topology = {.data_parallel = pool / size, .context_parallel = size};
      for (PassOptions& pass : fixed.passes) pass.max_tokens_per_microbatch *= size;
      const auto plan = MakeCheckedPlan(lengths, fixed);
      if (!plan.ok()) continue;
      ASSERT_TRUE(dynamic.ok()) << "seed " << seed << " CP " << size << ": " << dynamic.status();
      // Of several passes the others may keep the first from its fastest slots.
      if (options.passes.size() > 1) continue;
      EXPECT_LE(dynamic->passes[0].metrics.predicted_step_time,
                plan->passes[0].metrics.predicted_step_time * (1 + 1e-9))
          << "seed " << seed << " CP " << size;
    }
  }
}

TEST(DynamicPlanTest, ASizeThatExchangesForTooLongIsLeftOut) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(100, 4);
  PlanOptions options = DynamicOptions(8, 1, 16384);
  options.topology.dynamic_context->max_size = 2;
  options.cost_model.exchange = {{.up_to_size = 2, .per_token = 0.02}};
  const auto of_two = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(of_two.ok()) << of_two.status();
  options.topology.dynamic_context->max_size = 0;
  for (const double per_token : {1e6, 1e9, 1e12, 1e20, 1e100}) {
    options.cost_model.exchange = {{.up_to_size = 2, .per_token = 0.02}, {.per_token = per_token}};
    const auto plan = MakeCheckedPlan(lengths, options);
    ASSERT_TRUE(plan.ok()) << per_token << ": " << plan.status();
    const PlanMetrics& metrics = plan->passes[0].metrics;
    EXPECT_EQ(plan->fingerprint, of_two->fingerprint) << per_token;
    EXPECT_GT(metrics.ideal_step_time, 0);
    EXPECT_DOUBLE_EQ(metrics.lower_bound_step_time,
                     of_two->passes[0].metrics.lower_bound_step_time);
  }
}

TEST(DynamicPlanTest, ASizeThatExchangesForTooLongIsUsedWhereNoOtherCanBe) {
  // One sequence for four ranks, none of which may have nothing.
  PlanOptions options = DynamicOptions(4, 1, 1000);
  for (const double per_token : {1e3, 1e5}) {
    options.cost_model.exchange = {{.per_token = per_token}};
    const auto plan = MakeCheckedPlan(std::vector<uint32_t>{800}, options);
    ASSERT_TRUE(plan.ok()) << per_token << ": " << plan.status();
    EXPECT_THAT(plan->passes[0].context_sizes, ElementsAre(4));
  }
  options.cost_model.exchange = {{.per_token = 1e20}};
  EXPECT_THAT(std::string(MakeCheckedPlan(std::vector<uint32_t>{800}, options).status().message()),
              HasSubstr("cost_model.exchange[0].per_token is 1e+20: what groups of 4 ranks"));
  // Three quarters of the ranks are all that the longer one fits.
  options.cost_model.exchange = {{.up_to_size = 2, .per_token = 1e5}, {.per_token = 1e20}};
  const auto plan = MakeCheckedPlan(std::vector<uint32_t>{1800, 10, 10}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].context_sizes, ElementsAre(2, 1, 1));
}

TEST(DynamicPlanTest, NoPlanIsBelowTheBoundOfAnother) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const uint64_t seed : testing::Seeds(20)) {
      PlanOptions options = DynamicOptions(seed % 3 == 0 ? 6 : 8, 1, 16384);
      options.synchronization = synchronization;
      options.mini_batches.size = 40;
      const std::vector<uint32_t> lengths = testing::MathsLengths(80, seed);
      double fastest = 0;
      double bound = 0;
      uint32_t fewest = 0;
      uint32_t least = 0;
      for (const Effort effort : {Effort::kFast, Effort::kDefault, Effort::kThorough}) {
        for (const Sharding sharding : {Sharding::kBalanced, Sharding::kMegatronDynamicCp}) {
          options.effort = effort;
          options.passes[0].sharding = sharding;
          const auto plan = MakeCheckedPlan(lengths, options);
          ASSERT_TRUE(plan.ok()) << plan.status();
          const PlanMetrics& metrics = plan->passes[0].metrics;
          const bool first = fastest == 0;
          if (first || metrics.predicted_step_time < fastest) fastest = metrics.predicted_step_time;
          if (first || metrics.microbatches < fewest) fewest = metrics.microbatches;
          bound = std::max(bound, metrics.lower_bound_step_time);
          least = std::max(least, metrics.lower_bound_microbatches);
        }
      }
      EXPECT_LE(bound, fastest * (1 + 1e-9)) << "seed " << seed;
      EXPECT_LE(least, fewest) << "seed " << seed;
    }
  }
}

TEST(DynamicPlanTest, OverMiniBatchesThatWaitLongTheBoundAddsUp) {
  PlanOptions options = DynamicOptions(2, 1, 4096);
  options.topology.pipeline_parallel = 4;
  options.allow_empty_microbatches = true;
  options.mini_batches.size = 2;
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.pipeline.transfer = 2e4;
  options.passes[0].min_microbatches = 4000;
  const auto plan = MakeCheckedPlan(std::vector<uint32_t>{7, 7, 7, 7, 7, 7}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PlanMetrics& metrics = plan->passes[0].metrics;
  EXPECT_GT(metrics.lower_bound_step_time, 3 * 2e4);
  EXPECT_LE(metrics.lower_bound_step_time, metrics.predicted_step_time);
}

TEST(DynamicPlanTest, EmptySlotsTakeAsFewGroupsAsAddUpToThePool) {
  PlanOptions options = DynamicOptions(65536, 1, 1024);
  options.allow_empty_microbatches = true;
  options.passes[0].min_microbatches = 5;
  const auto plan = MakeCheckedPlan(std::vector<uint32_t>{1000, 900}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].microbatches_per_rank, ElementsAre(5));
  options.topology.dynamic_context->max_size = 1;
  EXPECT_THAT(
      std::string(MakeCheckedPlan(std::vector<uint32_t>{1000, 900}, options).status().message()),
      HasSubstr("passes[0]: min_microbatches 5 and a multiple of 1 ask for 5 slots of at "
                "least 65536 micro-batches each"));
  options.topology.dynamic_context->max_size = 0;
  options.passes[0].min_microbatches = 1000;
  EXPECT_THAT(
      std::string(MakeCheckedPlan(std::vector<uint32_t>{1000, 900}, options).status().message()),
      HasSubstr("ask for 1000 slots in 1 mini-batches, times the 65536 ranks of "
                "topology.dynamic_context more than 16777216"));
}

TEST(DynamicPlanTest, TooFewSequencesAreToldHowManyASlotTakes) {
  PlanOptions options = DynamicOptions(8, 1, 1000);
  options.topology.dynamic_context->max_size = 2;
  EXPECT_THAT(
      std::string(MakeCheckedPlan(std::vector<uint32_t>{900}, options).status().message()),
      HasSubstr("passes[0]: mini-batch 0: its 1 sequence fills no slots: at least 1 of them, as "
                "min_microbatches 1, a multiple of 1 and max_tokens_per_microbatch ask, "
                "and in each at least 4 groups of 1 to 2 ranks on all 8 ranks of "
                "topology.dynamic_context, none of them empty, take 4 sequences; set"));
}

TEST(DynamicPlanTest, LaterPassesKeepTheRanksUnderLimitsOfTheirOwn) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(120, 3);
  PlanOptions options = DynamicOptions(4, 2, 16384);
  options.mini_batches.size = 60;
  options.passes[0].name = "train";
  PassOptions twin = options.passes[0];
  twin.name = "again";
  PassOptions wider = options.passes[0];
  wider.name = "logprobs";
  wider.max_tokens_per_microbatch = 65536;
  PassOptions whole = wider;
  whole.name = "all";
  whole.ignore_mini_batches = true;
  options.passes.insert(options.passes.end(), {twin, wider, whole});
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[1].sequence_index, plan->passes[0].sequence_index);
  EXPECT_EQ(plan->passes[1].context_sizes, plan->passes[0].context_sizes);
  EXPECT_LE(plan->passes[2].context_sizes.size(), plan->passes[0].context_sizes.size());
  EXPECT_EQ(plan->passes[3].microbatches_per_rank.size(), 1);
}

TEST(DynamicPlanTest, ANarrowerLaterPassHasItsLimitsKept) {
  // The second pass holds half as much a rank: a group of four no longer takes what two could.
  const std::vector<uint32_t> lengths = testing::MathsLengths(200, 5);
  PlanOptions options = DynamicOptions(8, 1, 16384);
  options.passes[0].name = "train";
  PassOptions narrow = options.passes[0];
  narrow.name = "narrow";
  narrow.max_tokens_per_microbatch = 4096;
  narrow.length_multiple = 16;
  narrow.microbatch_count_multiple = 2;
  options.passes.push_back(narrow);
  const auto plan = MakeCheckedPlan(lengths, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
}

TEST(DynamicPlanTest, OverlongIsWhatTheLargestGroupDoesNotHold) {
  const std::vector<uint32_t> lengths = {900, 100, 100, 3000, 100};
  PlanOptions options = DynamicOptions(4, 1, 500);
  EXPECT_THAT(std::string(MakePlan({.lengths = lengths}, options).status().message()),
              HasSubstr("manifest.lengths[3] is 3000, but the largest groups, of 4 ranks "
                        "(topology.dynamic_context.max_size), hold sequences of up to 2000 tokens "
                        "in passes[0], whose max_tokens_per_microbatch is 500; raise that, or set "
                        "overlong to truncate or drop"));
  options.topology.dynamic_context->max_size = 2;
  EXPECT_THAT(std::string(MakePlan({.lengths = lengths}, options).status().message()),
              HasSubstr("of 2 ranks (topology.dynamic_context.max_size), hold sequences of up to "
                        "1000 tokens in passes[0], whose max_tokens_per_microbatch is 500; raise "
                        "one of them, or set"));
  options.topology.dynamic_context->max_size = 0;
  options.overlong = OverlongPolicy::kTruncate;
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->excluded.size(), 1);
  EXPECT_EQ(plan->excluded[0].index, 3);
}

TEST(DynamicPlanTest, TheFingerprintCoversTheSizes) {
  Plan plan;
  plan.passes.resize(1);
  plan.passes[0].context_sizes = {2, 1, 1};
  const std::string before = Fingerprint(plan);
  plan.passes[0].context_sizes = {1, 1, 2};
  EXPECT_NE(Fingerprint(plan), before);
}

TEST(DynamicPlanTest, AGroupOfSequencesFitsWhereAnySizeHoldsIt) {
  // Five ranks hold 40 tokens in multiples of 20, which the three sequences fill with 60; four hold
  // them in multiples of 8.
  PlanOptions options = DynamicOptions(5, 1, 10);
  options.passes[0].length_multiple = 4;
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const std::vector<uint32_t> lengths = {5, 5, 5, 5};
  const std::vector<uint32_t> ids = {0, 0, 0, 1};
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = ids}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].context_sizes, ElementsAre(4, 1));
}

TEST(DynamicPlanTest, GroupsOfSequencesShareAMicrobatch) {
  std::vector<uint32_t> lengths = testing::MathsLengths(96, 9);
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < lengths.size(); ++i) ids.push_back(i / 4);
  PlanOptions options = DynamicOptions(8, 1, 16384);
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = ids}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
}

struct Refusal {
  std::string name;
  std::function<void(PlanOptions&)> spoil;
  std::string message;
};

class DynamicRefusalsTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(DynamicRefusalsTest, NameTheFieldItsValueAndTheLimit) {
  PlanOptions options = DynamicOptions(6, 2, 4096);
  ASSERT_TRUE(options.Validate().ok()) << options.Validate();
  GetParam().spoil(options);
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Options, DynamicRefusalsTest,
    ::testing::Values(
        Refusal{"NoPowerOfTwo", [](PlanOptions& o) { o.topology.dynamic_context->min_size = 3; },
                "topology.dynamic_context.min_size is 3; it must be a power of two"},
        Refusal{"LeastAboveThePool",
                [](PlanOptions& o) { o.topology.dynamic_context->min_size = 16; },
                "topology.dynamic_context.min_size is 16, above the pool of 12 ranks "
                "(data_parallel 6 * context_parallel 2)"},
        Refusal{"LargestAboveThePool",
                [](PlanOptions& o) { o.topology.dynamic_context->max_size = 13; },
                "topology.dynamic_context.max_size is 13, above the pool of 12 ranks"},
        Refusal{"LargestBelowTheLeast",
                [](PlanOptions& o) {
                  o.topology.dynamic_context = DynamicContext{4, 2};
                },
                "topology.dynamic_context.max_size is 2, below min_size 4"},
        Refusal{"NoSizeIsPossible",
                [](PlanOptions& o) {
                  o.topology.dynamic_context = DynamicContext{8, 8};
                },
                "min_size is 8 and max_size 8, but no groups of such sizes add up to the pool"},
        Refusal{"TooLargeAPool", [](PlanOptions& o) { o.topology.data_parallel = 65536; },
                "together a pool of 131072 ranks; with dynamic_context the limit is 65536"},
        Refusal{"SameRank", [](PlanOptions& o) { o.mini_batches.groups = GroupPolicy::kSameRank; },
                "mini_batches.groups is GROUP_POLICY_SAME_RANK, but topology.dynamic_context"},
        Refusal{"EqualCounts",
                [](PlanOptions& o) { o.passes[0].sequence_counts = EqualCounts::kExact; },
                "passes[0].equal_sequence_counts is set, by itself or by the pass's preset, but "},
        Refusal{"OtherSharding", [](PlanOptions& o) { o.passes[0].sharding = Sharding::kLpt; },
                "passes[0].sharding is SHARDING_LPT, set by itself or by the pass's preset"},
        Refusal{"OtherPacker",
                [](PlanOptions& o) { o.passes[0].packer = Packer::kFirstFitDecreasing; },
                "passes[0].packed.packer is PACKER_FIRST_FIT_DECREASING, set by itself or by the "
                "pass's preset, but topology.dynamic_context is set"},
        Refusal{"Padded", [](PlanOptions& o) { o.passes[0].layout = Layout::kPadded; },
                "passes[0].layout is padded"},
        Refusal{"BalancedOnTokens",
                [](PlanOptions& o) { o.passes[0].balance_on = BalanceOn::kTokens; },
                "passes[0].balance_on is BALANCE_ON_TOKENS"},
        Refusal{"Alone", [](PlanOptions& o) { o.overlong = OverlongPolicy::kAlone; },
                "overlong is OVERLONG_POLICY_ALONE, but topology.dynamic_context"},
        Refusal{"MegatronWithoutAPool",
                [](PlanOptions& o) {
                  o.topology.dynamic_context.reset();
                  o.passes[0].sharding = Sharding::kMegatronDynamicCp;
                },
                "SHARDING_MEGATRON_DYNAMIC_CP, as the preset megatron_dynamic_cp has it, which "
                "divides the ranks of topology.dynamic_context"}),
    [](const ::testing::TestParamInfo<Refusal>& info) { return info.param.name; });

TEST(ContextSizesTest, ArePowersOfTwoThatTileThePoolAndThePool) {
  const auto sizes = [](uint32_t pool, uint32_t min_size, uint32_t max_size) {
    Topology topology = {.data_parallel = pool};
    topology.dynamic_context = {min_size, max_size};
    return ContextSizes(topology);
  };
  EXPECT_THAT(sizes(8, 1, 0), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(sizes(8, 2, 4), ElementsAre(2, 4));
  EXPECT_THAT(sizes(6, 1, 0), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(sizes(6, 2, 5), ElementsAre(2, 4));
  EXPECT_THAT(sizes(12, 8, 0), ElementsAre(12));
  EXPECT_THAT(sizes(1, 1, 0), ElementsAre(1));
}

TEST(ContextSizesTest, SizesThatHoldNoTokenAreLeftOut) {
  Topology topology = {.data_parallel = 4};
  topology.dynamic_context.emplace();
  PassOptions pass;
  pass.max_tokens_per_microbatch = 7;
  pass.length_multiple = 7;
  const auto limits = GroupLimitsOf(topology, pass, "passes[0]");
  ASSERT_TRUE(limits.ok()) << limits.status();
  ASSERT_EQ(limits->size(), 1);
  EXPECT_EQ(limits->front().ranks, 1);
  EXPECT_EQ(limits->front().capacity, 7);
  PlanOptions options = DynamicOptions(4, 1, 7);
  options.passes[0] = pass;
  EXPECT_TRUE(MakeCheckedPlan(std::vector<uint32_t>{7, 3, 1, 5, 7, 2, 6, 4}, options).ok());
  pass.max_tokens_per_microbatch = 6;
  EXPECT_THAT(std::string(GroupLimitsOf(topology, pass, "passes[0]").status().message()),
              HasSubstr("groups of 4 ranks, the most of topology.dynamic_context, hold 24 tokens, "
                        "below 56, the multiple of their lengths (length_multiple 7, topology 8)"));
}

TEST(ContextSizesTest, GroupsHoldTheirPartOfTheBudgetInMultiplesOfTheirOwn) {
  Topology topology = {.data_parallel = 2, .context_parallel = 2, .tensor_parallel = 2};
  topology.sequence_parallel = true;
  topology.dynamic_context.emplace();
  PassOptions pass;
  pass.max_tokens_per_microbatch = 101;
  pass.length_multiple = 3;
  const auto limits = GroupLimitsOf(topology, pass, "passes[0]");
  ASSERT_TRUE(limits.ok()) << limits.status();
  std::vector<uint32_t> numbers;
  for (const GroupLimits& size : *limits) {
    numbers.insert(numbers.end(), {size.ranks, size.multiple, size.capacity});
  }
  // 50, 101 and 202 tokens, in multiples of lcm(3, 2), lcm(3, 8) and lcm(3, 16).
  EXPECT_THAT(numbers, ElementsAre(1, 6, 48, 2, 24, 96, 4, 48, 192));
}

}  // namespace
}  // namespace batchplan
