#include "client/cli/output/microbatches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "client/cli/output/load_costs.h"
#include "proto/batchplan/v1/convert.h"

namespace batchplan::cli {
namespace {

v1::PlanBatchRequest Request() {
  v1::PlanBatchRequest request;
  for (uint32_t i = 0; i < 60; ++i) request.mutable_manifest()->add_lengths(1 + i * 7919 % 400);
  request.set_preset("nemo_rl_packing");
  request.mutable_topology()->set_data_parallel(4);
  request.mutable_topology()->set_context_parallel(2);
  request.mutable_mini_batches()->set_size(20);
  request.mutable_cost_model()->set_per_token(1);
  request.mutable_cost_model()->set_per_token_squared(0.001);
  request.mutable_cost_model()->set_per_microbatch(7);
  request.mutable_cost_model()->set_per_sequence(20);
  v1::Pass* pass = request.add_passes();
  pass->set_max_tokens_per_microbatch(512);
  pass->mutable_packed()->set_rows(v1::ROW_PADDING_LONGEST);
  return request;
}

TEST(StepTime, AgreesWithThePlannersUnderBothSynchronizations) {
  const Client client(MakeInProcessConnection());
  for (const v1::Synchronization synchronization :
       {v1::SYNCHRONIZATION_LOCKSTEP, v1::SYNCHRONIZATION_ACCUMULATED}) {
    v1::PlanBatchRequest request = Request();
    request.set_synchronization(synchronization);
    request.mutable_cost_model()->add_exchange()->set_per_token(0.5);
    request.mutable_cost_model()->set_exchange_overlaps(synchronization ==
                                                        v1::SYNCHRONIZATION_ACCUMULATED);
    const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::PassPlan& plan = response->passes(0);
    EXPECT_EQ(plan.microbatches_per_rank_size(), 3);
    const PlanOptions options = ParseRequest(request)->options;
    const auto passes = ListPasses(options, *response);
    ASSERT_TRUE(passes.ok()) << passes.status();
    const StepTimes times = PredictStepTimes((*passes)[0], plan, options, options.passes[0],
                                             response->cost_model_used());
    const double predicted = plan.metrics().predicted_step_time();
    EXPECT_NEAR(
        synchronization == v1::SYNCHRONIZATION_LOCKSTEP ? times.lockstep : times.accumulated,
        predicted, 1e-9 * predicted);
    EXPECT_GE(times.lockstep, times.accumulated);
  }
}

TEST(StepTime, ItAgreesWithThePlannersWhereGroupsDifferInSize) {
  const Client client(MakeInProcessConnection());
  for (const uint32_t stages : {1, 2}) {
    for (const v1::Synchronization synchronization :
         {v1::SYNCHRONIZATION_LOCKSTEP, v1::SYNCHRONIZATION_ACCUMULATED}) {
      v1::PlanBatchRequest request = Request();
      request.clear_preset();
      request.mutable_passes(0)->clear_layout();
      request.set_synchronization(synchronization);
      request.mutable_topology()->set_pipeline_parallel(stages);
      request.mutable_topology()->mutable_dynamic_context();
      request.mutable_cost_model()->add_exchange()->set_per_token(0.05);
      const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
      ASSERT_TRUE(response.ok()) << response.status();
      const v1::PassPlan& plan = response->passes(0);
      if (stages == 1) {
        EXPECT_GT(std::ranges::max(plan.context_sizes()), std::ranges::min(plan.context_sizes()));
      }
      const PlanOptions options = ParseRequest(request)->options;
      const auto passes = ListPasses(options, *response);
      ASSERT_TRUE(passes.ok()) << passes.status();
      const StepTimes times = PredictStepTimes((*passes)[0], plan, options, options.passes[0],
                                               response->cost_model_used());
      const double predicted = plan.metrics().predicted_step_time();
      EXPECT_NEAR(
          synchronization == v1::SYNCHRONIZATION_LOCKSTEP ? times.lockstep : times.accumulated,
          predicted, 1e-9 * predicted);
    }
  }
}

TEST(StepTime, ItAgreesWithThePlannersWhereSequencesShare) {
  const Client client(MakeInProcessConnection());
  for (const v1::Synchronization synchronization :
       {v1::SYNCHRONIZATION_LOCKSTEP, v1::SYNCHRONIZATION_ACCUMULATED}) {
    v1::PlanBatchRequest request = Request();
    request.clear_preset();
    request.set_synchronization(synchronization);
    request.mutable_cost_model()->add_exchange()->set_per_token(0.5);
    request.mutable_cost_model()->set_exchange_overlaps(synchronization ==
                                                        v1::SYNCHRONIZATION_ACCUMULATED);
    for (int i = 0; i < 60; ++i) {
      request.mutable_manifest()->set_lengths(i, 100 + static_cast<uint32_t>(i) * 7919 % 300);
      request.mutable_manifest()->add_shared_prefixes(i % 6 > 0 ? 90 + static_cast<uint32_t>(i % 5)
                                                                : 0);
      request.mutable_manifest()->add_shared_with(static_cast<uint32_t>(i - i % 6));
    }
    const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::PassPlan& plan = response->passes(0);
    ASSERT_GT(std::ranges::max(plan.shared_tokens()), 0U);
    const PlanOptions options = ParseRequest(request)->options;
    const auto passes = ListPasses(options, *response);
    ASSERT_TRUE(passes.ok()) << passes.status();
    const StepTimes times = PredictStepTimes((*passes)[0], plan, options, options.passes[0],
                                             response->cost_model_used());
    const double predicted = plan.metrics().predicted_step_time();
    EXPECT_NEAR(
        synchronization == v1::SYNCHRONIZATION_LOCKSTEP ? times.lockstep : times.accumulated,
        predicted, 1e-9 * predicted);
    uint64_t laid = 0;
    for (const RankLoad& rank :
         SumByRank((*passes)[0], plan, options, options.passes[0], response->cost_model_used())) {
      laid += rank.laid_tokens;
    }
    EXPECT_EQ(laid, plan.metrics().laid_tokens());
  }
}

TEST(StepTime, ItAgreesWithThePlannersWhereLoadsCost) {
  const Client client(MakeInProcessConnection());
  for (const v1::Synchronization synchronization :
       {v1::SYNCHRONIZATION_LOCKSTEP, v1::SYNCHRONIZATION_ACCUMULATED}) {
    v1::PlanBatchRequest request = Request();
    request.set_synchronization(synchronization);
    v1::Manifest& manifest = *request.mutable_manifest();
    for (const char* name : {"together", "apart", "dealt"}) {
      manifest.add_loads()->set_name(name);
      v1::LoadCost* cost = request.mutable_cost_model()->add_loads();
      cost->set_load(name);
      cost->set_per_unit(3);
    }
    request.mutable_cost_model()->mutable_loads(1)->set_separate(true);
    request.mutable_cost_model()->mutable_loads(2)->set_dealt(true);
    v1::LoadItems* items = manifest.add_items();
    items->set_load("dealt");
    for (uint32_t i = 0; i < 60; ++i) {
      manifest.mutable_loads(0)->add_values(i * 31 % 90);
      manifest.mutable_loads(1)->add_values(i % 3 == 0 ? i * 47 % 300 : 0);
      for (uint32_t k = 0; k < i % 4; ++k) {
        items->add_sequences(i);
        items->add_values(1 + (i + k) * 13 % 200);
      }
    }
    const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::PassPlan& plan = response->passes(0);
    const PlanOptions options = ParseRequest(request)->options;
    auto passes = ListPasses(options, *response);
    ASSERT_TRUE(passes.ok()) << passes.status();
    ASSERT_TRUE(AddLoadCosts(manifest, response->cost_model_used(), plan, &(*passes)[0]).ok());
    const StepTimes times = PredictStepTimes((*passes)[0], plan, options, options.passes[0],
                                             response->cost_model_used());
    const double predicted = plan.metrics().predicted_step_time();
    EXPECT_NEAR(
        synchronization == v1::SYNCHRONIZATION_LOCKSTEP ? times.lockstep : times.accumulated,
        predicted, 1e-9 * predicted);
    double all = 0;
    double most = 0;
    const std::vector<RankLoad> ranks =
        SumByRank((*passes)[0], plan, options, options.passes[0], response->cost_model_used());
    for (const RankLoad& rank : ranks) all += rank.cost;
    for (const RankLoad& rank : ranks) most = std::max(most, rank.cost);
    // Over several mini-batches, the plan adds up the largest cost of each.
    EXPECT_GE(plan.metrics().rank_cost_imbalance() + 1e-9, most * 4 / all);

    v1::PassPlan other = plan;
    other.mutable_item_ranks(0)->add_ranks(0);
    EXPECT_EQ(AddLoadCosts(manifest, response->cost_model_used(), other, &(*passes)[0]).code(),
              absl::StatusCode::kInvalidArgument);
    other = plan;
    other.set_sequence_index(3, 60);
    EXPECT_EQ(AddLoadCosts(manifest, response->cost_model_used(), other, &(*passes)[0]).message(),
              "the plan has sequence 60, but the request 60");
  }
}

TEST(ListMicrobatches, SharedTokensThatNoRowHasAreAnError) {
  PlanOptions options;
  v1::PassPlan plan;
  for (const uint32_t length : {5, 7, 4}) plan.add_sequence_lengths(length);
  for (const uint32_t index : {0, 1, 2}) plan.add_sequence_index(index);
  for (const uint32_t offset : {0, 2, 3}) plan.add_microbatch_offsets(offset);
  for (const uint32_t width : {9, 4}) plan.add_row_widths(width);
  plan.add_microbatches_per_rank(2);
  plan.set_length_multiple(1);
  const auto error_of = [&](const std::vector<uint32_t>& shared) {
    plan.clear_shared_tokens();
    plan.mutable_shared_tokens()->Add(shared.begin(), shared.end());
    return std::string(
        ListMicrobatches(plan, Layout::kPacked, options.topology).status().message());
  };
  EXPECT_EQ(error_of({0, 5, 0}), "");
  EXPECT_EQ(error_of({0, 3}), "the plan has 2 shared_tokens for 3 sequences");
  EXPECT_EQ(
      error_of({1, 3, 0}),
      "the plan's shared_tokens[0] is 1, of a sequence of 5 tokens behind one of 0 in its row");
  EXPECT_EQ(
      error_of({0, 6, 0}),
      "the plan's shared_tokens[1] is 6, of a sequence of 7 tokens behind one of 5 in its row");
  EXPECT_EQ(
      error_of({0, 3, 2}),
      "the plan's shared_tokens[2] is 2, of a sequence of 4 tokens behind one of 0 in its row");
}

// Two ranks with two slots: [5, 3 | 4] and [2 | 1], lengths in multiples of 4.
v1::PassPlan SmallPlan() {
  v1::PassPlan plan;
  for (const uint32_t index : {0, 1, 2, 3, 4}) plan.add_sequence_index(index);
  for (const uint32_t length : {5, 3, 4, 2, 1}) plan.add_sequence_lengths(length);
  for (const uint32_t offset : {0, 2, 3, 4, 5}) plan.add_microbatch_offsets(offset);
  for (const uint32_t width : {8, 4, 4, 8}) plan.add_row_widths(width);
  plan.add_microbatches_per_rank(2);
  plan.set_length_multiple(4);
  return plan;
}

// Options with one pass.
PlanOptions Options(uint32_t ranks, Layout layout) {
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.passes.emplace_back().layout = layout;
  return options;
}

StepTimes TimesOfSmallPlan(const v1::PassPlan& plan, Layout layout, uint32_t context_parallel = 1) {
  v1::CostModel cost;
  cost.set_per_token(1);
  cost.set_per_token_squared(0.5);
  cost.set_per_microbatch(10);
  PlanOptions options = Options(2, layout);
  options.topology.context_parallel = context_parallel;
  return PredictStepTimes(*ListMicrobatches(plan, layout, options.topology), plan, options,
                          options.passes[0], cost);
}

TEST(StepTime, PaddedSequencesCostAsMuchAsTheirRowIsWide) {
  // 2 x (8 + 32) + 10 | 4 + 8 + 10 on rank 0, 4 + 8 + 10 | 8 + 32 + 10 on rank 1.
  const StepTimes times = TimesOfSmallPlan(SmallPlan(), Layout::kPadded);
  EXPECT_DOUBLE_EQ(times.lockstep, 90 + 50);
  EXPECT_DOUBLE_EQ(times.accumulated, 90 + 22);
}

TEST(StepTime, PackedTailsCostPerTokenAlone) {
  v1::PassPlan plan = SmallPlan();
  plan.set_row_widths(0, 12);
  // 8 + 32 + 4 + 8 + 10 | 4 + 8 + 10 on rank 0, 4 + 8 + 10 | 4 + 8 + 4 + 10 on rank 1.
  const StepTimes times = TimesOfSmallPlan(plan, Layout::kPacked);
  EXPECT_DOUBLE_EQ(times.lockstep, 62 + 26);
  EXPECT_DOUBLE_EQ(times.accumulated, 62 + 22);
}

TEST(StepTime, ContextParallelRanksShareTokensAndNotWhatAMicrobatchCosts) {
  v1::PassPlan plan = SmallPlan();
  plan.set_row_widths(0, 12);
  // (8 + 32 + 4 + 8) / 4 + 10 | (4 + 8) / 4 + 10 on rank 0, the latter | (4 + 8 + 4) / 4 + 10 on 1.
  EXPECT_DOUBLE_EQ(TimesOfSmallPlan(plan, Layout::kPacked, 4).lockstep, 23 + 14);
  // 2 (8 + 32) / 4 + 10 | (4 + 8) / 4 + 10.
  EXPECT_DOUBLE_EQ(TimesOfSmallPlan(SmallPlan(), Layout::kPadded, 4).accumulated, 30 + 13);
}

TEST(StepTime, EmptyMicrobatchesHaveTheFixedCost) {
  v1::PassPlan plan;
  plan.add_sequence_index(0);
  plan.add_sequence_lengths(4);
  for (const uint32_t offset : {0, 1, 1}) plan.add_microbatch_offsets(offset);
  for (const uint32_t width : {4, 0}) plan.add_row_widths(width);
  plan.add_microbatches_per_rank(2);
  plan.set_length_multiple(4);
  v1::CostModel model;
  model.set_per_token(1);
  model.set_per_microbatch(10);
  const PlanOptions options = Options(1, Layout::kPacked);
  const auto microbatches = ListMicrobatches(plan, Layout::kPacked, options.topology);
  ASSERT_TRUE(microbatches.ok()) << microbatches.status();
  EXPECT_DOUBLE_EQ(
      PredictStepTimes(*microbatches, plan, options, options.passes[0], model).lockstep, 24);
}

// One mini-batch with rows of these widths, each with one sequence, divided evenly among the ranks.
v1::PlanBatchResponse PlanOfRows(const std::vector<uint32_t>& widths, uint32_t ranks) {
  v1::PlanBatchResponse response;
  v1::PassPlan& plan = *response.add_passes();
  plan.add_microbatch_offsets(0);
  for (uint32_t m = 0; m < widths.size(); ++m) {
    plan.add_sequence_index(m);
    plan.add_sequence_lengths(widths[m]);
    plan.add_microbatch_offsets(m + 1);
    plan.add_row_widths(widths[m]);
  }
  plan.add_microbatches_per_rank(static_cast<uint32_t>(widths.size()) / ranks);
  plan.set_length_multiple(1);
  return response;
}

PlanOptions OnPipelines(uint32_t ranks, uint32_t stages, uint32_t chunks) {
  PlanOptions options = Options(ranks, Layout::kPacked);
  options.topology.pipeline_parallel = stages;
  options.topology.virtual_pipeline = chunks;
  return options;
}

TEST(StepTime, OnPipelinesItIsWhatTheSlowestTakesAndInLockstepWhatTheSlotsMaximaTake) {
  v1::CostModel model;
  model.set_per_token(1);
  // Two stages; a third of each half is forward: forwards of 2 and 4 | 4 and 2.
  const v1::PlanBatchResponse response = PlanOfRows({12, 24, 24, 12}, 2);
  const PlanOptions options = OnPipelines(2, 2, 1);
  const auto passes = ListPasses(options, response);
  ASSERT_TRUE(passes.ok()) << passes.status();
  const StepTimes times =
      PredictStepTimes((*passes)[0], response.passes(0), options, options.passes[0], model);
  // The longest path through the works: 2 + 2 + 4 + 4 + 8 + 8 for 12 and 24, 4 + 4 + 8 + 8 + 4 for
  // 24 and 12.
  EXPECT_DOUBLE_EQ(times.accumulated, 28);
  // Two slots of 24: 4 + (4 + 8) + (4 + 8) + 8.
  EXPECT_DOUBLE_EQ(times.lockstep, 36);
}

TEST(StepTime, ItAgreesWithThePlannersOnPipelines) {
  const Client client(MakeInProcessConnection());
  for (int i = 0; i < 4; ++i) {
    const v1::Synchronization synchronization =
        i % 2 == 0 ? v1::SYNCHRONIZATION_LOCKSTEP : v1::SYNCHRONIZATION_ACCUMULATED;
    v1::PlanBatchRequest request = Request();
    request.set_synchronization(synchronization);
    if (i >= 2) {
      request.clear_preset();
      request.mutable_passes(0)->clear_packed();
      request.mutable_topology()->mutable_dynamic_context();
    }
    request.mutable_topology()->set_pipeline_parallel(3);
    request.mutable_topology()->set_virtual_pipeline(2);
    request.mutable_mini_batches()->set_size(60);
    request.mutable_pipeline()->set_transfer(5);
    request.mutable_pipeline()->set_backward_ratio(1.5);
    for (const double share : {1, 2, 1, 1, 3, 1})
      request.mutable_pipeline()->add_stage_shares(share);
    const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const PlanOptions options = ParseRequest(request)->options;
    const auto passes = ListPasses(options, *response);
    ASSERT_TRUE(passes.ok()) << passes.status();
    const StepTimes times = PredictStepTimes((*passes)[0], response->passes(0), options,
                                             options.passes[0], response->cost_model_used());
    const double predicted = response->passes(0).metrics().predicted_step_time();
    EXPECT_NEAR(
        synchronization == v1::SYNCHRONIZATION_LOCKSTEP ? times.lockstep : times.accumulated,
        predicted, 1e-9 * predicted);
  }
}

uint64_t InFlight(const PlanOptions& options, const std::vector<uint32_t>& widths) {
  const v1::PlanBatchResponse response = PlanOfRows(widths, options.topology.data_parallel);
  const auto passes = ListPasses(options, response);
  EXPECT_TRUE(passes.ok()) << passes.status();
  return MostTokensInFlight((*passes)[0], response.passes(0), options, options.passes[0]);
}

TEST(TokensInFlight, WithOneForwardOneBackwardAsManyMicrobatchesInARowAsThereAreStages) {
  // 5 + 9 + 4 on the second rank.
  EXPECT_EQ(InFlight(OnPipelines(2, 3, 1), {7, 1, 1, 8, 1, 5, 9, 4}), 18U);
  // Fewer micro-batches than stages.
  EXPECT_EQ(InFlight(OnPipelines(1, 8, 1), {7, 1, 2}), 10U);
}

TEST(TokensInFlight, InterleavedTheWarmUpAndOneMoreByChunks) {
  // 2 stages with 2 chunks run 2 + 2 forwards before the first backward. Of micro-batches 0 1 0 1 2
  // 3 2 3, each with half of a stage's layers, five in a row are in flight: at most 20 + 3 + 20 + 3
  // + 5.
  EXPECT_EQ(InFlight(OnPipelines(1, 2, 2), {20, 3, 5, 4}), 26U);
  PlanOptions options = OnPipelines(1, 2, 2);
  options.pipeline.group_size = 4;
  // Then 2 + 4 and one more of 0 1 2 3 0 1 2 3: all but the last one.
  EXPECT_EQ(InFlight(options, {20, 3, 5, 4}), (2 * 32 - 4) / 2U);
}

TEST(TokensInFlight, ForwardsAloneKeepOneMicrobatch) {
  PlanOptions options = OnPipelines(1, 4, 2);
  options.passes[0].forward_only = true;
  EXPECT_EQ(InFlight(options, {20, 3, 4, 5}), 20U);
}

TEST(TokensInFlight, ContextParallelRanksKeepTheirPartOfAMicrobatch) {
  PlanOptions options = OnPipelines(2, 2, 1);
  options.topology.context_parallel = 4;
  EXPECT_EQ(InFlight(options, {16, 8, 32, 8}), (32 + 8) / 4U);
}

TEST(TokensInFlight, WhereGroupsDifferInSizeEachRankKeepsItsPartOfItsGroups) {
  // Four ranks: [16 of 4], then [24 of 2, 8 of 2].
  PlanOptions options = OnPipelines(4, 2, 1);
  options.topology.dynamic_context.emplace();
  v1::PlanBatchResponse response = PlanOfRows({16, 24, 8}, 1);
  response.mutable_passes(0)->set_microbatches_per_rank(0, 2);
  for (const uint32_t size : {4, 2, 2}) response.mutable_passes(0)->add_context_sizes(size);
  const auto passes = ListPasses(options, response);
  ASSERT_TRUE(passes.ok()) << passes.status();
  EXPECT_EQ(MostTokensInFlight((*passes)[0], response.passes(0), options, options.passes[0]),
            16 / 4U + 24 / 2U);
}

TEST(Microbatches, CountsThatAnInterleavedScheduleHasNoOrderForAreRefused) {
  const absl::Status status =
      ListPasses(OnPipelines(1, 4, 2), PlanOfRows({1, 2, 3, 4, 5, 6}, 1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            "the plan's microbatches_per_rank[0] is 6, not a multiple of the 4 of a group of the "
            "interleaved schedule");
}

TEST(Microbatches, GroupsThatDoNotDivideThePoolAreRefused) {
  PlanOptions options = Options(2, Layout::kPacked);
  options.topology.context_parallel = 2;
  options.topology.dynamic_context.emplace();
  const auto message = [&](const std::vector<uint32_t>& sizes) {
    v1::PlanBatchResponse response = PlanOfRows({8, 8, 8}, 1);
    response.mutable_passes(0)->set_microbatches_per_rank(0, 2);
    for (const uint32_t size : sizes) response.mutable_passes(0)->add_context_sizes(size);
    return std::string(ListPasses(options, response).status().message());
  };
  EXPECT_EQ(message({4, 2, 2}), "");
  EXPECT_EQ(message({}), "the plan's context_sizes of a slot add up to 0, not to the 4 ranks");
  EXPECT_EQ(message({4, 2, 1}),
            "the plan's context_sizes of a slot add up to 3, not to the 4 ranks");
  EXPECT_EQ(message({2, 4, 2}),
            "the plan's context_sizes of a slot add up to 6, not to the 4 ranks");
  EXPECT_EQ(message({4, 0, 4}),
            "the plan's context_sizes of a slot add up to 0, not to the 4 ranks");
  EXPECT_EQ(message({4, 4, 4}), "the plan has 3 context_sizes, but slots of 2 groups");
}

TEST(Microbatches, ArraysThatDoNotFitAreRefused) {
  const auto refused = [](const v1::PassPlan& plan, uint32_t ranks) {
    const Topology topology = {.data_parallel = ranks};
    return absl::IsInvalidArgument(ListMicrobatches(plan, Layout::kPacked, topology).status());
  };
  EXPECT_FALSE(refused(SmallPlan(), 2));
  EXPECT_TRUE(refused(SmallPlan(), 3));
  EXPECT_TRUE(refused(v1::PassPlan(), 2));
  v1::PassPlan plan = SmallPlan();
  plan.set_microbatch_offsets(1, 4);
  EXPECT_TRUE(refused(plan, 2));
  plan = SmallPlan();
  plan.set_microbatch_offsets(4, 6);
  EXPECT_TRUE(refused(plan, 2));
  plan = SmallPlan();
  plan.add_sequence_lengths(1);
  EXPECT_TRUE(refused(plan, 2));
  plan = SmallPlan();
  plan.mutable_row_widths()->RemoveLast();
  EXPECT_TRUE(refused(plan, 2));
}

}  // namespace
}  // namespace batchplan::cli
