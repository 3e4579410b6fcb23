#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "proto/batchplan/v1/convert.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::PlanBatchRequest Request(const std::string& text) {
  v1::PlanBatchRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request));
  return request;
}

absl::Status Refused(const std::string& text) { return ParseRequest(Request(text)).status(); }

TEST(ConvertRequestTest, NamesThatCanNotBePrintedAreRefusedWhereverAPlanIsMade) {
  EXPECT_EQ(Refused(R"pb(job_id: "a\033[31m"
                         passes { max_tokens_per_microbatch: 9 })pb")
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused(R"pb(request_id: "a\n"
                         passes { max_tokens_per_microbatch: 9 })pb")
                .code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status control =
      Refused(R"pb(passes { max_tokens_per_microbatch: 9 }
                   passes { name: "train\033[31m" max_tokens_per_microbatch: 9 })pb");
  EXPECT_EQ(control.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(control.message()),
              AllOf(HasSubstr("passes[1].name \"train\\033[31m\" has U+001B at byte 5")));
  v1::PlanBatchRequest request;
  request.add_passes()->set_name(std::string(128, 'x'));
  EXPECT_TRUE(ParseRequest(request).ok());
  request.mutable_passes(0)->set_name(std::string(129, 'x'));
  EXPECT_EQ(std::string(ParseRequest(request).status().message()),
            "passes[0].name has 129 bytes, must have at most 128");
  request.mutable_passes(0)->set_name("log-probs \xe6\x97\xa5");
  EXPECT_TRUE(ParseRequest(request).ok());
}

TEST(ConvertRequestTest, EveryFieldArrives) {
  const v1::PlanBatchRequest request = Request(R"pb(
    preset: "nemo_rl_packing"
    manifest { lengths: 3 lengths: 5 group_ids: 7 group_ids: 8 pad_to: 9 }
    topology {
      data_parallel: 2
      context_parallel: 3
      tensor_parallel: 4
      pipeline_parallel: 5
      virtual_pipeline: 6
      sequence_parallel: true
    }
    mini_batches { size: 2 order: ORDER_SHUFFLED seed: 11 groups: GROUP_POLICY_SAME_RANK }
    cost_model {
      per_token: 1.5
      per_token_squared: 2.5
      per_microbatch: 3.5
      per_sequence: 4.5
      exchange { up_to_size: 8 per_token: 0.02 }
      exchange { per_token: 0.065 }
      exchange_overlaps: true
    }
    synchronization: SYNCHRONIZATION_ACCUMULATED
    effort: EFFORT_THOROUGH
    overlong: OVERLONG_POLICY_DROP
    allow_empty_microbatches: true
    passes {
      name: "train"
      max_tokens_per_microbatch: 100
      length_multiple: 16
      min_microbatches: 2
      microbatch_count_multiple: 3
      max_sequences_per_microbatch: 4
      balance_on: BALANCE_ON_TOKENS
      packed {
        packer: PACKER_BEST_FIT_DECREASING
        rows: ROW_PADDING_BUCKETS
        buckets: 48
        buckets: 96
      }
      sharding: SHARDING_CONTIGUOUS
      equal_sequence_counts: true
      order: MICROBATCH_ORDER_SMALL_AT_BOTH_ENDS
      ignore_mini_batches: true
      forward_only: true
    }
    pipeline {
      schedule: PIPELINE_SCHEDULE_INTERLEAVED
      group_size: 8
      backward_ratio: 1.75
      stage_shares: 3
      stage_shares: 2.5
      transfer: 0.25
    }
  )pb");
  const ParsedRequest parsed = ParseRequest(request).value();
  EXPECT_THAT(parsed.manifest.lengths, ElementsAre(3, 5));
  EXPECT_THAT(parsed.manifest.group_ids, ElementsAre(7, 8));
  EXPECT_EQ(parsed.manifest.pad_to, 9);
  const PlanOptions& options = parsed.options;
  EXPECT_EQ(options.topology.data_parallel, 2);
  EXPECT_EQ(options.topology.context_parallel, 3);
  EXPECT_EQ(options.topology.tensor_parallel, 4);
  EXPECT_EQ(options.topology.pipeline_parallel, 5);
  EXPECT_EQ(options.topology.virtual_pipeline, 6);
  EXPECT_TRUE(options.topology.sequence_parallel);
  EXPECT_EQ(options.mini_batches.size, 2);
  EXPECT_EQ(options.mini_batches.order, Order::kShuffled);
  EXPECT_EQ(options.mini_batches.seed, 11);
  EXPECT_EQ(options.mini_batches.groups, GroupPolicy::kSameRank);
  EXPECT_EQ(options.cost_model.per_token, 1.5);
  EXPECT_EQ(options.cost_model.per_token_squared, 2.5);
  EXPECT_EQ(options.cost_model.per_microbatch, 3.5);
  EXPECT_EQ(options.cost_model.per_sequence, 4.5);
  EXPECT_THAT(options.cost_model.exchange,
              ElementsAre(ContextExchange{.up_to_size = 8, .per_token = 0.02},
                          ContextExchange{.up_to_size = 0, .per_token = 0.065}));
  EXPECT_TRUE(options.cost_model.exchange_overlaps);
  EXPECT_EQ(options.pipeline.schedule, PipelineSchedule::kInterleaved);
  EXPECT_EQ(options.pipeline.group_size, 8);
  EXPECT_EQ(options.pipeline.backward_ratio, 1.75);
  EXPECT_THAT(options.pipeline.stage_shares, ElementsAre(3, 2.5));
  EXPECT_EQ(options.pipeline.transfer, 0.25);
  EXPECT_EQ(options.synchronization, Synchronization::kAccumulated);
  EXPECT_EQ(options.effort, Effort::kThorough);
  EXPECT_EQ(options.overlong, OverlongPolicy::kDrop);
  EXPECT_TRUE(options.allow_empty_microbatches);
  ASSERT_EQ(options.passes.size(), 1);
  const PassOptions& pass = options.passes[0];
  EXPECT_EQ(pass.name, "train");
  EXPECT_EQ(pass.max_tokens_per_microbatch, 100);
  EXPECT_EQ(pass.length_multiple, 16);
  EXPECT_EQ(pass.min_microbatches, 2);
  EXPECT_EQ(pass.microbatch_count_multiple, 3);
  EXPECT_EQ(pass.max_sequences_per_microbatch, 4);
  EXPECT_EQ(pass.balance_on, BalanceOn::kTokens);
  EXPECT_EQ(pass.layout, Layout::kPacked);
  EXPECT_EQ(pass.packer, Packer::kBestFitDecreasing);
  EXPECT_EQ(pass.rows, RowPadding::kBuckets);
  EXPECT_THAT(pass.buckets, ElementsAre(48, 96));
  EXPECT_EQ(pass.sharding, Sharding::kContiguous);
  EXPECT_EQ(pass.sequence_counts, EqualCounts::kExact);
  EXPECT_EQ(pass.order, MicrobatchOrder::kSmallAtBothEnds);
  EXPECT_TRUE(pass.ignore_mini_batches);
  EXPECT_TRUE(pass.forward_only);
}

TEST(ConvertRequestTest, MiniBatchesMayCountGroups) {
  const ParsedRequest parsed =
      ParseRequest(Request("mini_batches { group_count: 3 last: LAST_MINI_BATCH_SMALLER } "
                           "passes { max_tokens_per_microbatch: 10 }"))
          .value();
  EXPECT_EQ(parsed.options.mini_batches.group_count, 3);
  EXPECT_EQ(parsed.options.mini_batches.last, LastMiniBatch::kSmaller);
  EXPECT_EQ(parsed.options.mini_batches.policy(), GroupPolicy::kSameMiniBatch);
}

TEST(ConvertRequestTest, EqualCountsAreAskedForInOneOfTwoWays) {
  const auto counts = [](const std::string& fields) {
    return ParseRequest(Request("passes { max_tokens_per_microbatch: 10 " + fields + "}"))
        ->options.passes[0]
        .sequence_counts;
  };
  EXPECT_EQ(counts(""), EqualCounts::kAny);
  EXPECT_EQ(counts("sequence_counts: EQUAL_COUNTS_EXACT"), EqualCounts::kExact);
  EXPECT_EQ(counts("sequence_counts: EQUAL_COUNTS_WITHIN_ONE"), EqualCounts::kWithinOne);
  EXPECT_EQ(counts("sequence_counts: EQUAL_COUNTS_EXACT equal_sequence_counts: true"),
            EqualCounts::kExact);
  for (const char* fields : {"EQUAL_COUNTS_WITHIN_ONE equal_sequence_counts: true",
                             "EQUAL_COUNTS_EXACT equal_sequence_counts: false"}) {
    EXPECT_THAT(
        std::string(Refused(absl::StrCat("passes { sequence_counts: ", fields, "}")).message()),
        HasSubstr("passes[0].sequence_counts is EQUAL_COUNTS_"));
  }
  EXPECT_THAT(
      std::string(Refused("passes {} passes { sequence_counts: EQUAL_COUNTS_EXACT }").message()),
      HasSubstr("passes[1].sequence_counts is set"));
  // What the request sets overrides the preset.
  EXPECT_EQ(ParseRequest(Request("preset: 'verl' passes { max_tokens_per_microbatch: 10 "
                                 "sequence_counts: EQUAL_COUNTS_WITHIN_ONE }"))
                ->options.passes[0]
                .sequence_counts,
            EqualCounts::kWithinOne);
}

TEST(ConvertRequestTest, TheManifestIsReadInPlace) {
  const v1::PlanBatchRequest request = Request("manifest { lengths: 1 lengths: 2 }");
  EXPECT_EQ(ParseRequest(request)->manifest.lengths.data(), request.manifest().lengths().data());
}

TEST(ConvertRequestTest, UnsetFieldsTakeThePresetAndZerosAreOnes) {
  const ParsedRequest parsed =
      ParseRequest(Request(R"pb(
        preset: "nemo_rl_packing"
        topology { pipeline_parallel: 2 }
        passes { max_tokens_per_microbatch: 10 length_multiple: 0 min_microbatches: 0 }
      )pb"))
          .value();
  EXPECT_EQ(parsed.options.topology.data_parallel, 1);
  EXPECT_EQ(parsed.options.cost_model.per_token, 1);
  EXPECT_EQ(parsed.options.cost_model.per_token_squared, 1.0 / 24576);
  const PassOptions& pass = parsed.options.passes[0];
  EXPECT_EQ(pass.length_multiple, 1);
  EXPECT_EQ(pass.min_microbatches, 1);
  EXPECT_EQ(pass.packer, Packer::kModifiedFirstFitDecreasing);
  EXPECT_EQ(pass.sharding, Sharding::kDealBins);
  EXPECT_EQ(pass.rows, RowPadding::kLongest);
}

TEST(ConvertRequestTest, WhatTheCallerSetsWinsOverThePreset) {
  const ParsedRequest parsed = ParseRequest(Request(R"pb(
                                 preset: "nemo_rl_packing"
                                 passes { packed { packer: PACKER_CONCATENATIVE } }
                               )pb"))
                                   .value();
  EXPECT_EQ(parsed.options.passes[0].packer, Packer::kConcatenative);
  EXPECT_EQ(parsed.options.passes[0].sharding, Sharding::kDealBins);
}

TEST(ConvertRequestTest, ASetCostModelIsLiteral) {
  const ParsedRequest parsed = ParseRequest(Request("cost_model { per_token: 2 }")).value();
  EXPECT_EQ(parsed.options.cost_model.per_token_squared, 0);
}

TEST(ConvertRequestTest,
     WithAPipelineAMicrobatchCostsAndRanksMeetOnceUnlessTheRequestSaysOtherwise) {
  const std::string pipeline = "topology { pipeline_parallel: 2 } passes {} ";
  const PlanOptions unset = ParseRequest(Request(pipeline))->options;
  EXPECT_EQ(unset.cost_model.per_token, 1);
  EXPECT_EQ(unset.cost_model.per_token_squared, 1.0 / 24576);
  EXPECT_EQ(unset.cost_model.per_microbatch, 1024);
  EXPECT_EQ(unset.synchronization, Synchronization::kAccumulated);
  EXPECT_EQ(unset.pipeline.schedule, std::nullopt);
  EXPECT_EQ(unset.passes[0].order, MicrobatchOrder::kPipeline);

  for (const std::string cost :
       {"per_token: 2", "", "shape { layers: 1 hidden_size: 1 attention_heads: 1 }"}) {
    const PlanOptions set =
        ParseRequest(Request(pipeline + "synchronization: SYNCHRONIZATION_LOCKSTEP cost_model { " +
                             cost + " }"))
            ->options;
    EXPECT_EQ(set.cost_model.per_microbatch, 0) << cost;
    EXPECT_EQ(set.synchronization, Synchronization::kLockstep);
  }

  const PlanOptions without = ParseRequest(Request("passes {}"))->options;
  EXPECT_EQ(without.cost_model.per_microbatch, 0);
  EXPECT_EQ(without.synchronization, Synchronization::kLockstep);
  EXPECT_EQ(without.passes[0].order, MicrobatchOrder::kAsAssigned);
}

TEST(ConvertRequestTest, ABackwardRatioOf0Is2AndOthersAreLeftToValidation) {
  const std::string pipeline = "topology { pipeline_parallel: 2 } passes {} pipeline { ";
  EXPECT_EQ(ParseRequest(Request(pipeline + "}"))->options.pipeline.backward_ratio, 2);
  EXPECT_EQ(
      ParseRequest(Request(pipeline + "backward_ratio: -1 }"))->options.pipeline.backward_ratio,
      -1);
}

TEST(ConvertRequestTest, APipelineOfOneStageIsRefused) {
  for (const std::string topology : {"", "topology { pipeline_parallel: 1 }"}) {
    const absl::Status status = Refused("pipeline {} passes {} " + topology);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              "pipeline is set, but topology.pipeline_parallel is 1; leave it unset, or set that");
  }
}

TEST(ConvertRequestTest, AnUnknownScheduleIsRefusedByNameAndNumber) {
  v1::PlanBatchRequest request = Request("topology { pipeline_parallel: 2 } passes {}");
  request.mutable_pipeline()->set_schedule(static_cast<v1::PipelineSchedule>(77));
  const absl::Status status = ParseRequest(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pipeline.schedule is 77"));
}

TEST(ConvertRequestTest, AnUnknownEnumValueIsRefusedByNameAndNumber) {
  v1::PlanBatchRequest request = Request("preset: 'nemo_rl_packing' passes {}");
  request.mutable_passes(0)->set_sharding(static_cast<v1::Sharding>(77));
  const absl::Status status = ParseRequest(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("passes[0].sharding is 77"));
}

TEST(ConvertRequestTest, FittedCostsAreNotHere) {
  const absl::Status status = Refused("cost_model { fitted: true }");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cost_model.fitted is set"));
}

TEST(ConvertRequestTest, WithoutCostsARequestForFittedOnesIsRead) {
  v1::PlanBatchRequest request = Request("cost_model { fitted: true } preset: 'verl' passes {}");
  const absl::StatusOr<ParsedRequest> parsed = ParseRequestWithoutCosts(request);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  request.clear_cost_model();
  EXPECT_EQ(parsed->options.passes[0].sharding, ParseRequest(request)->options.passes[0].sharding);
}

TEST(ConvertRequestTest, AnythingBesideFittedIsRefusedByName) {
  const std::map<std::string, std::string> cases = {
      {"per_token 2", "per_token: 2"},
      {"per_token_squared 2", "per_token_squared: 2"},
      {"per_microbatch 2", "per_microbatch: 2"},
      {"per_sequence 2", "per_sequence: 2"},
      {"and exchange", "exchange { per_token: 2 }"},
      {"and exchange_overlaps", "exchange_overlaps: true"},
      {"and shape", "shape { layers: 1 hidden_size: 1 attention_heads: 1 }"}};
  for (const auto& [name, beside] : cases) {
    const absl::Status status = Refused("cost_model { fitted: true " + beside + " }");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << beside;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("cost_model.fitted is set beside"), HasSubstr(name)));
  }
}

TEST(ConvertRequestTest, ACostModelFollowsFromTheModelsShape) {
  const ParsedRequest parsed = ParseRequest(Request(R"pb(cost_model {
                                                           shape {
                                                             layers: 2
                                                             hidden_size: 100
                                                             ffn_hidden_size: 300
                                                             attention_heads: 4
                                                             vocabulary_size: 1000
                                                           }
                                                         })pb"))
                                   .value();
  EXPECT_DOUBLE_EQ(parsed.options.cost_model.per_token, 1e-9 * (2 * (80000 + 180000) + 200000));
  EXPECT_DOUBLE_EQ(parsed.options.cost_model.per_token_squared, 1e-9 * 800);
}

TEST(ConvertRequestTest, WhatRanksExchangeFollowsFromTheModelsShapeToo) {
  const ParsedRequest parsed = ParseRequest(Request(R"pb(cost_model {
                                                           exchange_overlaps: true
                                                           shape {
                                                             layers: 2
                                                             hidden_size: 100
                                                             attention_heads: 4
                                                             kv_heads: 2
                                                             flops_per_second: 1e12
                                                             node_size: 8
                                                             node_bytes_per_second: 4e9
                                                             network_bytes_per_second: 1e9
                                                           }
                                                         })pb"))
                                   .value();
  // 4 * 50 bytes for each of two layers.
  ASSERT_EQ(parsed.options.cost_model.exchange.size(), 2u);
  EXPECT_EQ(parsed.options.cost_model.exchange[0].up_to_size, 8u);
  EXPECT_DOUBLE_EQ(parsed.options.cost_model.exchange[0].per_token, 1e-9 * 400 * 250);
  EXPECT_EQ(parsed.options.cost_model.exchange[1].up_to_size, 0u);
  EXPECT_DOUBLE_EQ(parsed.options.cost_model.exchange[1].per_token, 1e-9 * 400 * 1000);
  EXPECT_TRUE(parsed.options.cost_model.exchange_overlaps);
}

TEST(ConvertRequestTest, FiguresOfExchangeThatSayNothingAreRefused) {
  const std::map<std::string, std::string> cases = {
      {"node_bytes_per_second: 1e9",
       "cost_model.shape.node_bytes_per_second is 1e+09, but flops_per_second is 0"},
      {"network_bytes_per_second: 1e9 flops_per_second: 1",
       "cost_model.shape.network_bytes_per_second is 1e+09, but node_size is 0"},
      {"flops_per_second: -1",
       "cost_model.shape.flops_per_second is -1; it must be 0, or between"}};
  for (const auto& [figures, message] : cases) {
    const absl::Status status = Refused(
        "cost_model { shape { layers: 1 hidden_size: 1 attention_heads: 1 " + figures + " } }");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << figures;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(ConvertRequestTest, AShapeBesideCoefficientsIsRefused) {
  for (const std::string coefficient : {"per_token", "per_sequence"}) {
    const absl::Status status =
        Refused("cost_model { " + coefficient +
                ": 2 shape { layers: 1 hidden_size: 1 attention_heads: 1 } }");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("cost_model.shape is set beside per_token"),
                      HasSubstr(coefficient + " 2")));
  }
  EXPECT_THAT(std::string(Refused("cost_model { exchange { per_token: 2 } shape { layers: 1 "
                                  "hidden_size: 1 attention_heads: 1 } }")
                              .message()),
              HasSubstr("and exchange; the coefficients follow from the shape"));
}

TEST(ConvertRequestTest, OnlyTheFirstPassMaySetItsSharding) {
  const absl::Status sharding = Refused("passes {} passes { sharding: SHARDING_LPT }");
  EXPECT_EQ(sharding.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(sharding.message()), HasSubstr("passes[1].sharding is set"));
  const absl::Status counts = Refused("passes {} passes { equal_sequence_counts: false }");
  EXPECT_THAT(std::string(counts.message()), HasSubstr("passes[1].equal_sequence_counts is set"));
}

TEST(ConvertRequestTest, AnUnknownPresetIsUnimplementedForAnotherVersionMayHaveIt) {
  EXPECT_EQ(Refused("preset: 'best'").code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace batchplan
