// Requests without a plan: the errors must name field, value and limit. Each of the random requests
// has one mistake; the other tests check the text of errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/invalid_request.h"

namespace batchplan {
namespace testing {

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

}  // namespace testing

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::PackedOptions;

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

std::string Refusal(const Manifest& manifest, const PlanOptions& options) {
  const auto plan = MakePlan(manifest, options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

std::string Refusal(const std::vector<uint32_t>& lengths, const PlanOptions& options) {
  return Refusal(Manifest{.lengths = lengths}, options);
}

class InvalidRequestsTest : public ::testing::TestWithParam<testing::Mistake> {};

TEST_P(InvalidRequestsTest, AreRefusedByTheNameOfTheField) {
  uint64_t tried = 0;
  for (const uint64_t seed : testing::Seeds(50)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    if (!MakePlan(request.manifest(), request.options).ok()) continue;
    ++tried;
    testing::RandomStream random(seed);
    GetParam().make(request, random);
    const absl::Status status = MakePlan(request.manifest(), request.options).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << status << "\nseed " << seed << "\n"
        << request.Describe();
    ASSERT_THAT(std::string(status.message()), ::testing::HasSubstr(GetParam().field))
        << "seed " << seed << "\n"
        << request.Describe();
  }
  EXPECT_GT(tried, 0u);
}

INSTANTIATE_TEST_SUITE_P(Mistakes, InvalidRequestsTest, ::testing::ValuesIn(testing::Mistakes()),
                         [](const ::testing::TestParamInfo<testing::Mistake>& info) {
                           return info.param.name;
                         });

TEST(RefusalsTest, ALengthOverTheBudget) {
  EXPECT_THAT(Refusal({3, 11}, PackedOptions(10, Packer::kConcatenative)),
              AllOf(HasSubstr("manifest.lengths[1] is 11"),
                    HasSubstr("passes[0].max_tokens_per_microbatch is 10")));
}

TEST(RefusalsTest, ALengthThatOnlyAlignmentPutsOverTheBudget) {
  PlanOptions options = PackedOptions(10, Packer::kConcatenative);
  options.topology.context_parallel = 2;
  EXPECT_THAT(Refusal({9}, options), HasSubstr("holds sequences of up to 8 tokens"));
}

TEST(RefusalsTest, FewerSequencesThanRanks) {
  EXPECT_THAT(Refusal({1, 2, 3}, PackedOptions(10, Packer::kConcatenative, 4)),
              AllOf(HasSubstr("has 3 sequences"), HasSubstr("data_parallel 4")));
  EXPECT_THAT(
      Refusal({1, 2, 3}, PackedOptions(10, Packer::kConcatenative, 4, Sharding::kContiguous)),
      AllOf(HasSubstr("has 3 sequences"), HasSubstr("data_parallel 4")));
}

TEST(RefusalsTest, FewerSequencesThanTheCountsNeed) {
  PlanOptions options = PackedOptions(10, Packer::kConcatenative, 2);
  options.passes[0].min_microbatches = kMost;
  options.passes[0].microbatch_count_multiple = kMost;
  EXPECT_THAT(Refusal({1, 2, 3}, options), HasSubstr("needs 8589934590 micro-batches"));
  options.passes[0].sharding = Sharding::kContiguous;
  EXPECT_THAT(Refusal({1, 2, 3}, options), HasSubstr("needs 8589934590 micro-batches"));
}

TEST(RefusalsTest, EqualCountsThatDoNotDivide) {
  PlanOptions options = PackedOptions(10, Packer::kConcatenative, 2, Sharding::kContiguous);
  options.passes[0].sequence_counts = EqualCounts::kExact;
  EXPECT_THAT(Refusal({1, 2, 3}, options),
              AllOf(HasSubstr("has 3 sequences"), HasSubstr("data_parallel 2 does not divide")));
}

TEST(RefusalsTest, GroupIdsOfAnotherSize) {
  const std::vector<uint32_t> lengths = {1, 2, 3};
  const std::vector<uint32_t> groups = {1, 1};
  EXPECT_THAT(
      Refusal({.lengths = lengths, .group_ids = groups}, PackedOptions(10, Packer::kConcatenative)),
      AllOf(HasSubstr("manifest.group_ids has 2"), HasSubstr("manifest.lengths has 3")));
}

TEST(RefusalsTest, PadToBelowTheLongest) {
  const std::vector<uint32_t> lengths = {1, 9, 3};
  EXPECT_THAT(Refusal({.lengths = lengths, .pad_to = 8}, PackedOptions(10, Packer::kConcatenative)),
              AllOf(HasSubstr("manifest.pad_to is 8"), HasSubstr("sequence 1 has 9")));
}

// Each pass alone could be planned.
TEST(RefusalsTest, PassesThatAskForTooManyEmptyMicrobatchesTogether) {
  PlanOptions options = PackedOptions(10, Packer::kConcatenative, 4);
  options.allow_empty_microbatches = true;
  options.passes[0].min_microbatches = 40000;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  EXPECT_THAT(Refusal({4, 5}, options),
              AllOf(HasSubstr("more than 262144 micro-batches beyond one a sequence"),
                    HasSubstr("data_parallel 4, 1 mini-batches, 2 passes")));

  // A slot may be a single group.
  options.topology.dynamic_context.emplace();
  for (PassOptions& pass : options.passes) {
    pass.sharding = Sharding::kBalanced;
    pass.packer = Packer::kBalanced;
    pass.min_microbatches = 200000;
  }
  EXPECT_THAT(Refusal({4, 5}, options),
              AllOf(HasSubstr("more than 262144 micro-batches beyond one a sequence"),
                    HasSubstr("4 ranks of topology.dynamic_context, 1 mini-batches, 2 passes")));
}

TEST(RefusalsTest, SumsBeyond32BitsAreNoReason) {
  const auto plan = testing::MakeCheckedPlan(std::vector<uint32_t>(64, kMost),
                                             PackedOptions(kMost, Packer::kBestFitDecreasing, 8));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[0].metrics.true_tokens, 64 * uint64_t{kMost});
}

TEST(RefusalsTest, SumsOfCappedRowsBeyond32BitsAreNoReason) {
  PlanOptions options = PackedOptions(kMost, Packer::kFirstFitDecreasing, 4);
  options.passes[0].rows = RowPadding::kCapacity;
  const auto plan = testing::MakeCheckedPlan(std::vector<uint32_t>(8, 1), options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[0].metrics.scheduled_tokens, 4 * uint64_t{kMost});
}

}  // namespace
}  // namespace batchplan
