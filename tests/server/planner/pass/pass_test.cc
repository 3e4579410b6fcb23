#include "server/planner/pass/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls use(instance) with the only pass, which has the length multiple 4 and the budget 30, for
// lengths 4, 12 and 20.
template <typename Use>
void WithPass(RowPadding rows, std::vector<uint32_t> buckets, Use use) {
  const std::vector<uint32_t> lengths = {4, 12, 20};
  const Manifest manifest{.lengths = lengths};
  PlanOptions options;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = 30;
  pass.rows = rows;
  pass.buckets = std::move(buckets);
  const Groups groups(manifest, GroupPolicy::kIgnore);
  const PlannedLengths planned{.lengths = lengths, .excluded = {}};
  Alignments alignments(planned.lengths);
  use(Pass::Create(manifest, options, 0, {{.multiple = 4, .capacity = 28, .buckets = pass.buckets}},
                   planned, alignments, groups, 1));
}

std::vector<uint32_t> Padded(RowPadding rows, std::vector<uint32_t> buckets = {}) {
  std::vector<uint32_t> padded;
  WithPass(rows, std::move(buckets), [&](const auto& pass) {
    padded = pass->RowWidths({4, 0, 12, 20}, {});
  });
  return padded;
}

std::string Refusal(std::vector<uint32_t> buckets) {
  absl::Status status;
  WithPass(RowPadding::kBuckets, std::move(buckets),
           [&](const auto& pass) { status = pass.status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

uint32_t Capacity(RowPadding rows, std::vector<uint32_t> buckets = {}) {
  uint32_t capacity = 0;
  WithPass(rows, std::move(buckets),
           [&](const auto& pass) { capacity = pass->bin_limits().capacity; });
  return capacity;
}

TEST(PassTest, RowsArePaddedAsAsked) {
  EXPECT_THAT(Padded(RowPadding::kNone), ElementsAre(4, 0, 12, 20));
  EXPECT_THAT(Padded(RowPadding::kLongest), ElementsAre(20, 0, 20, 20));
  EXPECT_THAT(Padded(RowPadding::kCapacity), ElementsAre(28, 0, 28, 28));
  EXPECT_THAT(Padded(RowPadding::kBuckets, {8, 12, 24}), ElementsAre(8, 0, 12, 24));
}

TEST(PassTest, RowsHoldNoMoreThanTheBudgetOrTheWidestBucket) {
  EXPECT_EQ(Capacity(RowPadding::kNone), 28);
  EXPECT_EQ(Capacity(RowPadding::kBuckets, {8, 24}), 24);
}

TEST(PassTest, BucketsThatDoNotHoldTheLongestSequenceAreRefused) {
  EXPECT_THAT(Refusal({8, 16}), HasSubstr("ends at 16, but the longest sequence takes 20"));
}

TEST(PassTest, OnOneSizeIsThePassOfATopologyOfThatSize) {
  const std::vector<uint32_t> lengths = {4, 12, 40};
  const Manifest manifest{.lengths = lengths};
  const Groups groups(manifest, GroupPolicy::kIgnore);
  const PlannedLengths planned{.lengths = lengths, .excluded = {}};
  Alignments alignments(planned.lengths);
  const std::vector<GroupLimits> sizes = {{.ranks = 1, .multiple = 4, .capacity = 28},
                                          {.ranks = 2, .multiple = 8, .capacity = 56},
                                          {.ranks = 6, .multiple = 24, .capacity = 168}};
  const auto create = [&](const PlanOptions& options, const std::vector<GroupLimits>& its_sizes) {
    return *Pass::Create(manifest, options, 0, its_sizes, planned, alignments, groups, 1);
  };
  PlanOptions options;
  options.cost_model.per_microbatch = 100;
  options.topology.data_parallel = 6;
  options.topology.dynamic_context.emplace();
  options.passes.emplace_back().max_tokens_per_microbatch = 30;
  const Pass pass = create(options, sizes);
  PlanOptions fixed = options;
  fixed.topology = {.data_parallel = 3, .context_parallel = 2};
  fixed.passes[0].max_tokens_per_microbatch = 56;
  const Pass expected = create(fixed, {sizes[1]});

  EXPECT_FALSE(pass.OnOneSize(0)) << "one rank does not hold 40 tokens";
  const std::optional<Pass> two = pass.OnOneSize(1);
  ASSERT_TRUE(two);
  EXPECT_FALSE(two->sizes_differ());
  EXPECT_EQ(two->ranks(), 3);
  EXPECT_THAT(two->aligned(), ElementsAre(8, 16, 40));
  EXPECT_EQ(two->bin_limits().capacity, expected.bin_limits().capacity);
  EXPECT_EQ(two->cost().OfSequence(40), expected.cost().OfSequence(40));
  EXPECT_EQ(two->cost().OfMicrobatch(), expected.cost().OfMicrobatch());
}

TEST(PassTest, OnOneSizeNeedsASizeThatDividesThePool) {
  const std::vector<uint32_t> lengths = {4};
  const Manifest manifest{.lengths = lengths};
  const Groups groups(manifest, GroupPolicy::kIgnore);
  const PlannedLengths planned{.lengths = lengths, .excluded = {}};
  Alignments alignments(planned.lengths);
  PlanOptions options;
  options.topology.data_parallel = 6;
  options.topology.dynamic_context.emplace();
  options.passes.emplace_back().max_tokens_per_microbatch = 30;
  const Pass pass = *Pass::Create(
      manifest, options, 0,
      {{.ranks = 1, .multiple = 1, .capacity = 30}, {.ranks = 4, .multiple = 8, .capacity = 120}},
      planned, alignments, groups, 1);
  EXPECT_TRUE(pass.OnOneSize(0));
  EXPECT_FALSE(pass.OnOneSize(1));
}

TEST(CountRuleTest, RoundsUpToMinimumAndMultiple) {
  EXPECT_EQ((CountRule{.minimum = 1, .multiple = 1}).RoundUp(5), 5);
  EXPECT_EQ((CountRule{.minimum = 7, .multiple = 4}).RoundUp(5), 8);
  EXPECT_EQ((CountRule{.minimum = 1, .multiple = 4}).RoundUp(9), 12);
}

TEST(CountRuleTest, RoundsDownToAnAllowedCountOrNone) {
  EXPECT_EQ((CountRule{.minimum = 3, .multiple = 2}).RoundDown(7), 6);
  EXPECT_EQ((CountRule{.minimum = 3, .multiple = 2}).RoundDown(3), 0);
}

TEST(CountRuleTest, TheLeastNumberThatNeedsACountIsTheFirstRoundedUpToIt) {
  for (uint64_t minimum = 1; minimum <= 7; ++minimum) {
    for (uint64_t multiple = 1; multiple <= 5; ++multiple) {
      const CountRule rule = {.minimum = minimum, .multiple = multiple};
      for (uint64_t count = rule.RoundUp(0); count <= 30; count += multiple) {
        const uint64_t least = rule.LeastThatNeeds(count);
        EXPECT_EQ(rule.RoundUp(least), count);
        if (least > 0) {
          EXPECT_LT(rule.RoundUp(least - 1), count);
        }
      }
    }
  }
}

TEST(CountRuleTest, PipelineStagesMatterOnlyWithVirtualStages) {
  PassOptions pass;
  pass.microbatch_count_multiple = 6;
  EXPECT_EQ(CountRuleOf({.pipeline_parallel = 4, .virtual_pipeline = 1}, {}, pass).multiple, 6);
  EXPECT_EQ(CountRuleOf({.pipeline_parallel = 4, .virtual_pipeline = 2}, {}, pass).multiple, 12);
}

}  // namespace
}  // namespace batchplan
