#include "server/planner/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
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
        Refusal{"CoefficientNegative",
                [](PlanOptions& o) { o.cost_model.per_token_squared = -0.5; },
                "cost_model.per_token_squared is -0.5; it must be 0, or between 1e-100 and 1e+100"},
        Refusal{"CoefficientBelowAllMeaning",
                [](PlanOptions& o) { o.cost_model.per_token = 1e-323; },
                "cost_model.per_token is "},
        Refusal{"TooManyPasses",
                [](PlanOptions& o) {
                  for (int i = 1; i <= 64; ++i) {
                    o.passes.push_back(o.passes[0]);
                    o.passes.back().name = std::to_string(i);
                  }
                },
                "passes has 65 entries; the limit is 64"},
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

TEST(OptionsTest, WhatIsAskedForPlainlyIsAccepted) { EXPECT_TRUE(Valid().Validate().ok()); }

}  // namespace
}  // namespace batchplan
