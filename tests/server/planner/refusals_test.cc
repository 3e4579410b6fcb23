// Requests that no plan can meet: each answered with an error that names field, value and limit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"

namespace batchplan {
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

TEST(RefusalsTest, NoLengths) {
  EXPECT_THAT(Refusal(std::vector<uint32_t>(), PackedOptions(10, Packer::kConcatenative)),
              HasSubstr("manifest.lengths is empty"));
}

TEST(RefusalsTest, ALengthOfZero) {
  EXPECT_THAT(Refusal({3, 0, 4}, PackedOptions(10, Packer::kConcatenative)),
              HasSubstr("manifest.lengths[1] is 0"));
}

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
  options.passes[0].equal_sequence_counts = true;
  EXPECT_THAT(Refusal({1, 2, 3}, options),
              AllOf(HasSubstr("has 3 sequences"), HasSubstr("data_parallel 2 does not divide")));
}

TEST(RefusalsTest, AMiniBatchSizeThatDoesNotDivide) {
  PlanOptions options = PackedOptions(10, Packer::kConcatenative);
  options.mini_batches.size = 2;
  EXPECT_THAT(Refusal({1, 2, 3}, options), HasSubstr("mini_batches.size is 2"));
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

TEST(RefusalsTest, CostsThatOverflow) {
  PlanOptions options = PackedOptions(kMost, Packer::kConcatenative);
  options.cost_model.per_token_squared = 1e300;
  EXPECT_THAT(Refusal({kMost, kMost}, options), HasSubstr("cost_model"));
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
