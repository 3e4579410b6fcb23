#include "server/planner/request/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

namespace batchplan {
namespace {

using ::testing::HasSubstr;

PlanOptions Valid() {
  PlanOptions options;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = 100;
  pass.packer = Packer::kFirstFitDecreasing;
  pass.sharding = Sharding::kDealBins;
  return options;
}

struct Refusal {
  std::string name;
  std::function<void(PlanOptions&)> spoil;
  std::string message;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class OptionsRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(OptionsRefusalTest, NamesFieldAndValue) {
  PlanOptions options = Valid();
  GetParam().spoil(options);
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, OptionsRefusalTest,
    ::testing::Values(
        Refusal{"ParallelSizeOfTwoToThe31",
                [](PlanOptions& o) { o.topology.data_parallel = 1u << 31; },
                "topology.data_parallel is 2147483648; it must be between 1 and 65536"},
        Refusal{"NoPasses", [](PlanOptions& o) { o.passes.clear(); }, "passes is empty"},
        Refusal{"CoefficientNegative",
                [](PlanOptions& o) { o.cost_model.per_token_squared = -0.5; },
                "cost_model.per_token_squared is -0.5; it must be 0, or between 1e-100 and 1e+100"},
        Refusal{"CoefficientBelowAllMeaning",
                [](PlanOptions& o) { o.cost_model.per_token = 1e-323; },
                "cost_model.per_token is "},
        Refusal{"CoefficientOfExchangeNotANumber",
                [](PlanOptions& o) {
                  o.cost_model.exchange = {{8, 0.02}, {0, std::nan("")}};
                },
                "cost_model.exchange[1].per_token is nan; it must be 0, or between"},
        Refusal{
            "ExchangeForAllSizesBeforeAnother",
            [](PlanOptions& o) {
              o.cost_model.exchange = {{0, 0.02}, {8, 0.065}};
            },
            "cost_model.exchange[0].up_to_size is 0, all larger sizes, but exchange[1] follows"},
        Refusal{"ExchangeSizesThatDoNotAscend",
                [](PlanOptions& o) {
                  o.cost_model.exchange = {{8, 0.02}, {8, 0.065}};
                },
                "cost_model.exchange[1].up_to_size is 8, but that of exchange[0] is 8; sizes "
                "ascend"},
        Refusal{"TooManyExchanges", [](PlanOptions& o) { o.cost_model.exchange.resize(65); },
                "cost_model.exchange has 65 entries; the limit is 64"},
        Refusal{"NoCostButExchange",
                [](PlanOptions& o) {
                  o.cost_model = {0, 0, 0, 0, {{0, 1}}};
                },
                "cost_model has per_token, per_token_squared, per_microbatch and per_sequence all "
                "0"},
        Refusal{"TooManyPasses",
                [](PlanOptions& o) {
                  for (int i = 1; i <= 64; ++i) {
                    o.passes.push_back(o.passes[0]);
                    o.passes.back().name = std::to_string(i);
                  }
                },
                "passes has 65 entries; the limit is 64"},
        Refusal{"MoreVirtualStagesThanAreSimulated",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 64;
                  o.topology.virtual_pipeline = 9;
                },
                "topology.pipeline_parallel 64 times virtual_pipeline 9 is 576 virtual stages; the "
                "limit is "
                "512"},
        Refusal{"InterleavedWithoutVirtualStages",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.pipeline.schedule = PipelineSchedule::kInterleaved;
                },
                "pipeline.schedule is PIPELINE_SCHEDULE_INTERLEAVED, but topology.virtual_pipeline "
                "is 1; it must be above 1, or leave the schedule unset"},
        Refusal{"OneFOneBWithVirtualStages",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.topology.virtual_pipeline = 2;
                  o.pipeline.schedule = PipelineSchedule::kOneFOneB;
                },
                "pipeline.schedule is PIPELINE_SCHEDULE_ONE_F_ONE_B, but topology.virtual_pipeline "
                "is 2; it must be 1, or leave the schedule unset"},
        Refusal{"GroupsOfFewerMicrobatchesThanStages",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.topology.virtual_pipeline = 2;
                  o.pipeline.group_size = 3;
                },
                "pipeline.group_size is 3; it must be between pipeline_parallel 4 and 65536"},
        Refusal{"GroupsWithoutVirtualStages",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.pipeline.group_size = 4;
                },
                "pipeline.group_size is 4, but topology.virtual_pipeline is 1"},
        Refusal{"BackwardRatioBelow0",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.pipeline.backward_ratio = -1;
                },
                "pipeline.backward_ratio is -1; it must be between 0.001 and 1000"},
        Refusal{"BackwardRatioThatIsNoNumber",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.pipeline.backward_ratio = std::nan("");
                },
                "pipeline.backward_ratio is nan; it must be between"},
        Refusal{"TransferBelow0",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.pipeline.transfer = -0.5;
                },
                "pipeline.transfer is -0.5; it must be between 0 and 1e+100"},
        Refusal{"TransferWithoutEnd",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 4;
                  o.pipeline.transfer = std::numeric_limits<double>::infinity();
                },
                "pipeline.transfer is inf; it must be between 0 and 1e+100"},
        Refusal{
            "StageSharesOfAnotherNumber",
            [](PlanOptions& o) {
              o.topology.pipeline_parallel = 2;
              o.topology.virtual_pipeline = 2;
              o.pipeline.stage_shares = {1, 1, 1};
            },
            "pipeline.stage_shares has 3 entries; there are 4 virtual stages, pipeline_parallel * "
            "virtual_pipeline, or leave them out"},
        Refusal{"StageSharesThatAreNotFinite",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 2;
                  o.pipeline.stage_shares = {1, std::numeric_limits<double>::infinity()};
                },
                "pipeline.stage_shares[1] is inf; it must be between 0 and 1e+100"},
        Refusal{"StageSharesBelow0",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 2;
                  o.pipeline.stage_shares = {-1, 2};
                },
                "pipeline.stage_shares[0] is -1; it must be between 0 and 1e+100"},
        Refusal{"StageSharesOfNothing",
                [](PlanOptions& o) {
                  o.topology.pipeline_parallel = 2;
                  o.pipeline.stage_shares = {0, 0};
                },
                "pipeline.stage_shares add up to 0; it must be at least 1e-100"},
        Refusal{"BucketsThatDoNotAscend",
                [](PlanOptions& o) {
                  o.passes[0].rows = RowPadding::kBuckets;
                  o.passes[0].buckets = {50, 50};
                },
                "passes[0].packed.buckets[1] is 50, not above"}),
    [](const ::testing::TestParamInfo<Refusal>& info) { return info.param.name; });

TEST(OptionsTest, OnlyTheFirstPassHasASharding) {
  PlanOptions options = Valid();
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].layout = Layout::kPadded;
  EXPECT_TRUE(options.Validate().ok());
}

TEST(OptionsTest, PipelinesUpToTheirLimitsAreAccepted) {
  PlanOptions options = Valid();
  options.topology.pipeline_parallel = 4;
  options.topology.virtual_pipeline = 2;
  options.pipeline = {.schedule = PipelineSchedule::kInterleaved,
                      .group_size = 65536,
                      .backward_ratio = 1000,
                      // A stage without layers.
                      .stage_shares = {0, 1, 1, 1, 1, 1, 1, 1e100},
                      .transfer = 1e100};
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  options.pipeline.group_size = 4;
  options.pipeline.backward_ratio = 0.001;
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

TEST(OptionsTest, WhatIsAskedForPlainlyIsAccepted) { EXPECT_TRUE(Valid().Validate().ok()); }

}  // namespace
}  // namespace batchplan
