#include "tests/support/satisfiable.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/owned_loads.h"

namespace batchplan::testing {
namespace {

// Requests with an obvious answer.
struct Request {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> group_ids = {};
  PlanOptions options = {};
  std::vector<OwnedLoad> loads = {};

  Request(std::vector<uint32_t> lengths, uint32_t budget, uint32_t ranks, Sharding sharding)
      : lengths(std::move(lengths)) {
    options.topology.data_parallel = ranks;
    PassOptions& pass = options.passes.emplace_back();
    pass.max_tokens_per_microbatch = budget;
    pass.sharding = sharding;
  }
  PassOptions& pass() { return options.passes[0]; }
  bool Satisfiable() const {
    Manifest manifest{.lengths = lengths, .group_ids = group_ids};
    ViewLoads(loads, &manifest);
    return testing::Satisfiable(manifest, options);
  }
};

TEST(SatisfiableTest, EveryRankNeedsASequenceUnlessEmptyOnesAreAllowed) {
  Request request({1, 1}, 4, 3, Sharding::kLpt);
  EXPECT_FALSE(request.Satisfiable());
  request.options.allow_empty_microbatches = true;
  EXPECT_TRUE(request.Satisfiable());
}

TEST(SatisfiableTest, ALoneLongSequenceForcesTwoMicrobatchesOnTheOtherRanks) {
  // 9 and 9 need two micro-batches or two ranks; a contiguous cut leaves one rank a single 9.
  Request request({9, 9, 9}, 10, 2, Sharding::kContiguous);
  EXPECT_FALSE(request.Satisfiable());
  request.lengths = {9, 9, 1, 1};
  EXPECT_TRUE(request.Satisfiable());
}

TEST(SatisfiableTest, CountsObeyTheMinimumAndBothMultiples) {
  Request request({1, 1, 1, 1, 1}, 10, 1, Sharding::kLpt);
  request.pass().min_microbatches = 3;
  EXPECT_TRUE(request.Satisfiable());
  request.pass().microbatch_count_multiple = 2;
  EXPECT_TRUE(request.Satisfiable());
  request.options.topology.pipeline_parallel = 3;
  EXPECT_TRUE(request.Satisfiable());
  request.options.topology.virtual_pipeline = 2;
  EXPECT_FALSE(request.Satisfiable());
}

TEST(SatisfiableTest, StrideSortedHasNoChoice) {
  // Sorted 1 2 8 8: rank 0 gets 1 and 8, and so does not need two micro-batches; rank 1 does.
  Request request({8, 1, 8, 2}, 9, 2, Sharding::kStrideSorted);
  EXPECT_TRUE(request.Satisfiable());
  request.lengths = {8, 1, 8, 2, 1};
  EXPECT_FALSE(request.Satisfiable());
}

TEST(SatisfiableTest, PaddedMicrobatchesCountTheirWidth) {
  Request request({1, 1, 4}, 11, 1, Sharding::kLpt);
  EXPECT_TRUE(request.Satisfiable());
  request.pass().max_sequences_per_microbatch = 3;
  request.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  request.group_ids = {5, 5, 5};
  EXPECT_TRUE(request.Satisfiable());
  request.pass().layout = Layout::kPadded;
  EXPECT_FALSE(request.Satisfiable());
  request.pass().max_tokens_per_microbatch = 12;
  EXPECT_TRUE(request.Satisfiable());
}

TEST(SatisfiableTest, LimitsAreOfLoadsTogether) {
  // Each limit alone allows several pairings; both together allow only one.
  Request request({1, 1, 1, 1}, 10, 2, Sharding::kLpt);
  request.loads = {{.name = "a", .values = {3, 3, 1, 1}}, {.name = "b", .values = {3, 1, 3, 1}}};
  request.pass().limits = {{"a", 4}};
  request.options.cost_model.loads = {{.load = "b", .per_unit = 1}};
  EXPECT_TRUE(request.Satisfiable());
  request.pass().limits = {{"a", 4}, {"b", 4}};
  EXPECT_TRUE(request.Satisfiable());
  request.pass().limits = {{"a", 4 - 1e-9}, {"b", 4}};
  EXPECT_TRUE(request.Satisfiable());
  // Values 3 and 3 exceed the limit in one micro-batch, but not in two.
  request.loads[1].values = {1, 1, 3, 3};
  request.pass().sharding = Sharding::kContiguous;
  request.pass().min_microbatches = 2;
  EXPECT_TRUE(request.Satisfiable());
  request.lengths = {1, 1, 1};
  for (OwnedLoad& load : request.loads) load.values = {3, 1, 3};
  request.options.topology.data_parallel = 1;
  request.pass().min_microbatches = 1;
  request.pass().microbatch_count_multiple = 3;
  EXPECT_TRUE(request.Satisfiable());
  request.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  request.group_ids = {1, 2, 1};
  request.pass().microbatch_count_multiple = 1;
  EXPECT_FALSE(request.Satisfiable());
  request.pass().limits = {{"a", 6}};
  EXPECT_TRUE(request.Satisfiable());
}

TEST(SatisfiableTest, OneThatExceedsALimitIsRefusedDroppedOrAlone) {
  Request request({1, 1, 1}, 10, 1, Sharding::kLpt);
  request.loads = {{.name = "a", .values = {2, 1, 1}, .has_items = true, .sequences = {0, 0, 2}}};
  request.pass().limits = {{"a", 2}};
  EXPECT_FALSE(request.Satisfiable());
  request.options.overlong = OverlongPolicy::kTruncate;
  EXPECT_FALSE(request.Satisfiable());
  request.options.overlong = OverlongPolicy::kDrop;
  EXPECT_TRUE(request.Satisfiable());
  request.pass().min_microbatches = 3;
  EXPECT_FALSE(request.Satisfiable());
  request.options.overlong = OverlongPolicy::kAlone;
  EXPECT_TRUE(request.Satisfiable());
  request.pass().min_microbatches = 1;
  request.pass().max_sequences_per_microbatch = 2;
  request.options.topology.data_parallel = 3;
  EXPECT_TRUE(request.Satisfiable());
}

TEST(SatisfiableTest, GroupsCloseTheirMiniBatches) {
  Request request({1, 1, 1, 1}, 4, 1, Sharding::kLpt);
  request.group_ids = {1, 2, 1, 2};
  request.options.mini_batches = {.size = 2, .groups = GroupPolicy::kSameMiniBatch};
  EXPECT_TRUE(request.Satisfiable());
  request.group_ids = {1, 2, 2, 3};
  EXPECT_FALSE(request.Satisfiable());
}

TEST(SatisfiableTest, GroupsStayOnTheirRanks) {
  Request request({1, 1, 1, 1}, 4, 2, Sharding::kLpt);
  request.pass().sequence_counts = EqualCounts::kExact;
  request.group_ids = {1, 1, 1, 2};
  request.options.mini_batches.groups = GroupPolicy::kSameMiniBatch;
  EXPECT_TRUE(request.Satisfiable());
  request.options.mini_batches.groups = GroupPolicy::kSameRank;
  EXPECT_FALSE(request.Satisfiable());
}

TEST(SatisfiableTest, DroppingTakesWholeGroupsAndMayEmptyAMiniBatch) {
  Request request({9, 1, 1, 1}, 4, 1, Sharding::kLpt);
  request.options.overlong = OverlongPolicy::kDrop;
  request.options.mini_batches.size = 2;
  request.group_ids = {1, 1, 2, 2};
  EXPECT_TRUE(request.Satisfiable());
  request.options.mini_batches.groups = GroupPolicy::kSameMiniBatch;
  EXPECT_FALSE(request.Satisfiable());
}

TEST(SatisfiableTest, LaterPassesFillInsideTheRanksOfAllMiniBatchesTogether) {
  Request request({9, 9, 1, 1}, 10, 2, Sharding::kLpt);
  request.options.mini_batches.size = 2;
  PassOptions later = request.pass();
  later.ignore_mini_batches = true;
  later.min_microbatches = 2;
  request.options.passes.push_back(later);
  EXPECT_TRUE(request.Satisfiable());
  request.options.passes[1].ignore_mini_batches = false;
  EXPECT_FALSE(request.Satisfiable());
}

}  // namespace
}  // namespace batchplan::testing
