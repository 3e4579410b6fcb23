// The checker and the planner, written independently, agree.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "server/checker/check_plan.h"
#include "server/planner/make_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

TEST(PlannedPlanTest, EveryPlanOfARandomRequestIsAccepted) {
  const std::vector<uint64_t> seeds = Seeds(4000);
  uint64_t planned = 0;
  for (const uint64_t seed : seeds) {
    const GeneratedRequest request = GenerateRequest(seed);
    SCOPED_TRACE(request.Describe());
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << plan.status();
      continue;
    }
    ++planned;
    const absl::Status status = CheckPlan(request.manifest(), request.options, *plan);
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    if (HasFailure()) break;
  }
  // Most generated requests must be plannable, or the generator is of little use.
  EXPECT_GT(planned, seeds.size() / 2);
}

TEST(PlannedPlanTest, EveryPlanWithOneNumberChangedIsRejected) {
  for (const uint64_t seed : Seeds(500)) {
    const GeneratedRequest request = GenerateRequest(seed);
    absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    RandomStream random(seed);
    PassPlan& pass = plan->passes[random.Between(0, plan->passes.size() - 1)];
    // Offsets are left out: sequences cut elsewhere may be just as good a plan.
    for (std::vector<uint32_t>* values : {&pass.sequence_index, &pass.microbatches_per_rank,
                                          &pass.row_widths, &pass.sequence_lengths}) {
      uint32_t& value = (*values)[random.Between(0, values->size() - 1)];
      const uint32_t before = value;
      value = before ^ static_cast<uint32_t>(uint64_t{1} << random.Between(0, 31));
      EXPECT_EQ(CheckPlan(request.manifest(), request.options, *plan).code(),
                absl::StatusCode::kInternal)
          << before << " became " << value << "; " << request.Describe();
      value = before;
    }
  }
}

TEST(PlannedPlanTest, EveryPlanOfSharedPrefixesIsAcceptedAndWithOneNumberChangedRejected) {
  uint64_t changed = 0;
  const std::vector<uint64_t> seeds = Seeds(300);
  for (const uint64_t seed : seeds) {
    GeneratedRequest request = GenerateRequest(seed);
    AddSharedPrefixes(seed, &request);
    if (seed % 4 == 0) AddSelection(seed, &request);
    absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    const absl::Status status = CheckPlan(request.manifest(), request.options, *plan);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status << "\n" << request.Describe();
    RandomStream random(seed);
    PassPlan& pass = plan->passes[random.Between(0, plan->passes.size() - 1)];
    for (std::vector<uint32_t>* values : {&pass.shared_tokens, &pass.row_widths}) {
      if (values->empty()) continue;
      uint32_t& value = (*values)[random.Between(0, values->size() - 1)];
      const uint32_t before = value;
      value = before ^ static_cast<uint32_t>(uint64_t{1} << random.Between(0, 31));
      EXPECT_EQ(CheckPlan(request.manifest(), request.options, *plan).code(),
                absl::StatusCode::kInternal)
          << before << " became " << value << "; " << request.Describe();
      value = before;
      ++changed;
    }
  }
  EXPECT_GT(changed, seeds.size() / 2);
}

TEST(PlannedPlanTest, EveryPlanOfLoadsIsAcceptedAndWithOneNumberChangedRejected) {
  uint64_t changed = 0;
  const std::vector<uint64_t> seeds = Seeds(600);
  for (const uint64_t seed : seeds) {
    GeneratedRequest request = GenerateRequest(seed);
    if (seed % 3 == 0) AddSharedPrefixes(seed, &request);
    if (seed % 4 == 0) AddSelection(seed, &request);
    AddLoads(seed, &request);
    absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    const absl::Status status = CheckPlan(request.manifest(), request.options, *plan);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status << "\n" << request.Describe();
    RandomStream random(seed);
    const auto expect_rejected = [&] {
      EXPECT_EQ(CheckPlan(request.manifest(), request.options, *plan).code(),
                absl::StatusCode::kInternal)
          << "seed " << seed << "\n"
          << request.Describe();
      ++changed;
    };
    PassPlan& pass = plan->passes[random.Between(0, plan->passes.size() - 1)];
    for (LoadRanks& dealt : pass.item_ranks) {
      if (dealt.ranks.empty()) continue;
      uint32_t& rank = dealt.ranks[random.Between(0, dealt.ranks.size() - 1)];
      const uint32_t before = rank;
      rank = before ^ static_cast<uint32_t>(uint64_t{1} << random.Between(0, 31));
      expect_rejected();
      rank = before;
    }
    for (LoadMetrics& load : pass.metrics.loads) {
      // Times are compared as shares of the step's.
      const double step = pass.metrics.predicted_step_time;
      for (double* value : {&load.largest, &load.mean, &load.rank_imbalance, &load.separate_time}) {
        const double before = *value;
        *value = before == 0 || value == &load.separate_time ? before + step : before * 1.01;
        expect_rejected();
        *value = before;
      }
    }
  }
  EXPECT_GT(changed, seeds.size());
}

TEST(PlannedPlanTest, APlanOfWhatCostsNothingIsAccepted) {
  GeneratedRequest request;
  request.lengths = {3, 4, 5};
  request.loads = {{.name = "nothing", .values = {0, 0, 0}}};
  request.options.topology.data_parallel = 2;
  request.options.cost_model = {.per_token = 0, .per_token_squared = 0};
  request.options.cost_model.loads = {{.load = "nothing", .per_unit = 1}};
  request.options.passes.emplace_back().max_tokens_per_microbatch = 10;
  const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[0].metrics.predicted_step_time, 0);
  const absl::Status status = CheckPlan(request.manifest(), request.options, *plan);
  EXPECT_TRUE(status.ok()) << status;
}

// Each sequence shares all but one token of the one before it, in rows of their own or in a single
// row. Neither check may compare all pairs.
TEST(PlannedPlanTest, ALongChainIsChecked) {
  const uint32_t count = 100000;
  GeneratedRequest request;
  for (uint32_t i = 0; i < count; ++i) {
    request.lengths.push_back(i + 2);
    request.shared_prefixes.push_back(i);
    request.shared_with.push_back(i == 0 ? 0 : i - 1);
  }
  PassOptions& pass = request.options.passes.emplace_back();
  pass.max_tokens_per_microbatch = 2 * count;
  request.options.effort = Effort::kFast;
  for (const uint32_t sequences : {0, 1}) {
    pass.max_sequences_per_microbatch = sequences;
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = CheckPlan(request.manifest(), request.options, *plan);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(plan->passes[0].metrics.unique_tokens, 2 * count);
  }
}

TEST(PlannedPlanTest, EveryPlanOfGroupsThatDifferIsAcceptedAndWithOneNumberChangedRejected) {
  const std::vector<uint64_t> seeds = Seeds(1000);
  uint64_t planned = 0;
  for (const uint64_t seed : seeds) {
    const GeneratedRequest request = GenerateDynamicRequest(seed);
    SCOPED_TRACE(request.Describe());
    absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << plan.status();
      continue;
    }
    ++planned;
    const absl::Status status = CheckPlan(request.manifest(), request.options, *plan);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    RandomStream random(seed);
    PassPlan& pass = plan->passes[random.Between(0, plan->passes.size() - 1)];
    for (std::vector<uint32_t>* values :
         {&pass.sequence_index, &pass.microbatches_per_rank, &pass.row_widths,
          &pass.sequence_lengths, &pass.context_sizes}) {
      uint32_t& value = (*values)[random.Between(0, values->size() - 1)];
      const uint32_t before = value;
      value = before ^ static_cast<uint32_t>(uint64_t{1} << random.Between(0, 31));
      EXPECT_EQ(CheckPlan(request.manifest(), request.options, *plan).code(),
                absl::StatusCode::kInternal)
          << before << " became " << value;
      value = before;
    }
  }
  EXPECT_GT(planned, seeds.size() / 2);
}

}  // namespace
}  // namespace batchplan::testing
