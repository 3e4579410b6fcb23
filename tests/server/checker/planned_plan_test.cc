// The checker and the planner, each written without the other, agree.

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
  // The generator is of use only if most of what it makes can be planned.
  EXPECT_GT(planned, seeds.size() / 2);
}

TEST(PlannedPlanTest, EveryPlanWithOneNumberChangedIsRejected) {
  for (const uint64_t seed : Seeds(500)) {
    const GeneratedRequest request = GenerateRequest(seed);
    absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    RandomStream random(seed);
    PassPlan& pass = plan->passes[random.Between(0, plan->passes.size() - 1)];
    // Not the offsets: another cut of the same sequences may be a plan just as good.
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
