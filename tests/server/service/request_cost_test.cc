#include "server/service/request_cost.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "batchplan/v1/batch_planner.pb.h"
#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "tests/support/generators.h"
#include "tests/support/wire_request.h"

namespace batchplan {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TEST(RequestCostTest, SequencesCountOnceAPass) {
  RequestOutline outline;
  outline.sequences = 900'000;
  EXPECT_EQ(CostOf(outline), 900'000U);
  outline.passes = 64;
  EXPECT_EQ(CostOf(outline), 57'600'000U);
  outline.message_bytes = 900'000;
  EXPECT_EQ(CostOf(outline), 57'600'000U);
  outline.message_bytes = 1'600'000'000;
  EXPECT_EQ(CostOf(outline), 100'000'000U);
}

TEST(RequestCostTest, MicrobatchesCountWhereTheyMayBeEmpty) {
  RequestOutline outline;
  outline.sequences = 1;
  outline.passes = 1;
  outline.data_parallel = 65536;
  outline.pass_options = {{.min_microbatches = 256}};
  EXPECT_EQ(LeastMicrobatches(outline), 0U) << "each has a sequence, or there is no plan";
  outline.allow_empty_microbatches = true;
  EXPECT_EQ(LeastMicrobatches(outline), uint64_t{1} << 24);
  EXPECT_EQ(CostOf(outline), (uint64_t{1} << 24) + 1);
  EXPECT_GT(LeastAnswerBytes(outline), uint64_t{1} << 25);
  outline.pass_options.push_back({.min_microbatches = 255, .microbatch_count_multiple = 256});
  EXPECT_EQ(LeastMicrobatches(outline), uint64_t{2} << 24);
  // The count is a multiple of the stages too, where there are virtual ones.
  outline.data_parallel = 1;
  outline.pass_options = {{.min_microbatches = 5, .microbatch_count_multiple = 6}};
  outline.pipeline_parallel = 4;
  EXPECT_EQ(LeastMicrobatches(outline), 6U);
  outline.virtual_pipeline = 2;
  EXPECT_EQ(LeastMicrobatches(outline), 12U);
  outline.sequences = 100;
  outline.mini_batch_size = 10;
  EXPECT_EQ(LeastMicrobatches(outline), 120U);
  outline.pass_options[0].ignore_mini_batches = true;
  EXPECT_EQ(LeastMicrobatches(outline), 12U);
}

TEST(RequestCostTest, WhatMakesNoSenseDoesNotOverflow) {
  RequestOutline outline;
  outline.sequences = kMost;
  outline.passes = kMost;
  outline.data_parallel = UINT32_MAX;
  outline.pipeline_parallel = UINT32_MAX - 1;
  outline.virtual_pipeline = UINT32_MAX;
  outline.mini_batch_size = 1;
  outline.allow_empty_microbatches = true;
  outline.pass_options.assign(
      64, {.min_microbatches = UINT32_MAX, .microbatch_count_multiple = UINT32_MAX});
  EXPECT_EQ(CostOf(outline), kMost);
  EXPECT_EQ(LeastMicrobatches(outline), kMost);
  EXPECT_EQ(LeastAnswerBytes(outline), kMost);
}

TEST(RequestCostTest, NoPlanHasLessThanItsRequestIsKnownToNeed) {
  uint64_t planned = 0;
  uint64_t empty = 0;
  for (const uint64_t seed : testing::Seeds(400)) {
    SCOPED_TRACE(seed);
    v1::PlanBatchRequest request = testing::WireRequest(testing::GenerateRequest(seed));
    testing::RandomStream random(seed);
    request.set_allow_empty_microbatches(random.Chance(70));
    const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options, {});
    if (!plan.ok()) continue;
    v1::PlanBatchResponse response;
    FillResponse(*plan, absl::ZeroDuration(), &response);
    const RequestOutline outline = OutlineOf(request);
    uint64_t microbatches = 0;
    for (const v1::PassPlan& pass : response.passes()) microbatches += pass.row_widths_size();
    EXPECT_LE(LeastMicrobatches(outline), microbatches);
    EXPECT_LE(LeastAnswerBytes(outline), response.ByteSizeLong());
    ++planned;
    empty += LeastMicrobatches(outline) > 1 ? 1 : 0;
  }
  EXPECT_GT(planned, 50U);
  EXPECT_GT(empty, 10U);
}

}  // namespace
}  // namespace batchplan
