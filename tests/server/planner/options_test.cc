#include "server/planner/options.h"

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
  absl::StatusCode code;
  std::string message;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class OptionsRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(OptionsRefusalTest, NamesFieldAndValue) {
  PlanOptions options = Valid();
  GetParam().spoil(options);
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

INSTANTIATE_TEST_SUITE_P(
    All, OptionsRefusalTest,
    ::testing::Values(
        Refusal{"ParallelSizeOfTwoToThe31",
                [](PlanOptions& o) { o.topology.data_parallel = 1u << 31; }, kInvalid,
                "topology.data_parallel is 2147483648; it must be between 1 and 65536"},
        Refusal{"ParallelSizeOfZero", [](PlanOptions& o) { o.topology.context_parallel = 0; },
                kInvalid, "topology.context_parallel is 0"},
        Refusal{"CoefficientNaN", [](PlanOptions& o) { o.cost_model.per_token = std::nan(""); },
                kInvalid, "cost_model.per_token is nan"},
        Refusal{"CoefficientInfinite",
                [](PlanOptions& o) {
                  o.cost_model.per_microbatch = std::numeric_limits<double>::infinity();
                },
                kInvalid, "cost_model.per_microbatch is inf"},
        Refusal{"CoefficientNegative",
                [](PlanOptions& o) { o.cost_model.per_token_squared = -0.5; }, kInvalid,
                "cost_model.per_token_squared is -0.5; it must be 0, or between 1e-100 and 1e+100"},
        Refusal{"CoefficientBelowAllMeaning",
                [](PlanOptions& o) { o.cost_model.per_token = 1e-323; }, kInvalid,
                "cost_model.per_token is "},
        Refusal{"CoefficientsAllZero",
                [](PlanOptions& o) {
                  o.cost_model = {.per_token = 0, .per_token_squared = 0, .per_microbatch = 0};
                },
                kInvalid, "all 0"},
        Refusal{"NoPasses", [](PlanOptions& o) { o.passes.clear(); }, kInvalid, "passes is empty"},
        Refusal{"TooManyPasses",
                [](PlanOptions& o) {
                  for (int i = 1; i <= 64; ++i) {
                    o.passes.push_back(o.passes[0]);
                    o.passes.back().name = std::to_string(i);
                  }
                },
                kInvalid, "passes has 65 entries; the limit is 64"},
        Refusal{"TwoPassesOfOneName", [](PlanOptions& o) { o.passes.push_back(o.passes[0]); },
                kInvalid, "passes[1].name is \"\", which an earlier pass has"},
        Refusal{"BudgetOfZero", [](PlanOptions& o) { o.passes[0].max_tokens_per_microbatch = 0; },
                kInvalid, "passes[0].max_tokens_per_microbatch is 0"},
        Refusal{"MultipleOfZero", [](PlanOptions& o) { o.passes[0].length_multiple = 0; }, kInvalid,
                "length_multiple 0"},
        Refusal{"DealtBinsWithEqualCounts",
                [](PlanOptions& o) { o.passes[0].equal_sequence_counts = true; }, kInvalid,
                "passes[0].equal_sequence_counts is set"},
        Refusal{"DealtBinsWithPaddedLayout",
                [](PlanOptions& o) { o.passes[0].layout = Layout::kPadded; }, kInvalid,
                "the layout is padded"},
        Refusal{"BucketsWithoutTheirRowPadding", [](PlanOptions& o) { o.passes[0].buckets = {50}; },
                kInvalid, "passes[0].packed.buckets has 1 widths"},
        Refusal{"NoBuckets", [](PlanOptions& o) { o.passes[0].rows = RowPadding::kBuckets; },
                kInvalid, "passes[0].packed.buckets is empty"},
        Refusal{"BucketAboveTheBudget",
                [](PlanOptions& o) {
                  o.passes[0].rows = RowPadding::kBuckets;
                  o.passes[0].buckets = {50, 101};
                },
                kInvalid, "passes[0].packed.buckets[1] is 101"},
        Refusal{"BucketsThatDoNotAscend",
                [](PlanOptions& o) {
                  o.passes[0].rows = RowPadding::kBuckets;
                  o.passes[0].buckets = {50, 50};
                },
                kInvalid, "passes[0].packed.buckets[1] is 50, not above"}),
    [](const ::testing::TestParamInfo<Refusal>& info) { return info.param.name; });

TEST(OptionsTest, OnlyTheFirstPassHasASharding) {
  PlanOptions options = Valid();
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].layout = Layout::kPadded;
  EXPECT_TRUE(options.Validate().ok());
}

TEST(OptionsTest, WhatIsAskedForPlainlyIsAccepted) { EXPECT_TRUE(Valid().Validate().ok()); }

}  // namespace
}  // namespace batchplan
