#include "server/planner/pass/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;

// Two ranks with five slots, each with one sequence that costs its length. If `one_empty`, slot 4
// of rank 1 is empty.
std::vector<uint32_t> Ordered(MicrobatchOrder order, bool one_empty = false) {
  const std::vector<uint32_t> lengths = {3, 1, 5, 2, 4, /* rank 1: */ 7, 7, 9, 6, 8};
  const Manifest manifest{.lengths = lengths};
  PlanOptions options;
  options.topology.data_parallel = 2;
  options.cost_model = {.per_token = 1, .per_token_squared = 0, .per_microbatch = 0};
  options.passes.emplace_back();
  options.passes[0].max_tokens_per_microbatch = 10;
  const Groups groups(manifest, GroupPolicy::kIgnore);
  const PlannedLengths planned{.lengths = lengths, .excluded = {}};
  Alignments alignments(planned.lengths);
  const Pass pass =
      *Pass::Create(manifest, options, 0, {{.capacity = 10}}, planned, alignments, groups, 1);

  Placement placement;
  placement.slots = 5;
  for (uint32_t i = 0; i < lengths.size(); ++i) {
    const bool empty = one_empty && i == 9;
    if (!empty) placement.microbatches.Push(SequenceIndex(i));
    placement.microbatches.Close();
    placement.widths.push_back(empty ? 0 : lengths[i]);
  }
  OrderMicrobatches(pass, order, placement);
  std::vector<uint32_t> sequences;
  for (SequenceIndex sequence : placement.microbatches.all()) sequences.push_back(sequence.value());
  return sequences;
}

TEST(OrderTest, AsAssignedChangesNothing) {
  EXPECT_THAT(Ordered(MicrobatchOrder::kAsAssigned), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(OrderTest, LargestFirstSortsEachRankAndKeepsTies) {
  EXPECT_THAT(Ordered(MicrobatchOrder::kLargestFirst), ElementsAre(2, 4, 0, 3, 1, 7, 9, 5, 6, 8));
}

TEST(OrderTest, SmallAtBothEndsRisesAndFalls) {
  // Costs 1, 3, 5, 4, 2: the even positions of the descending order in reverse, then the odd ones.
  EXPECT_THAT(Ordered(MicrobatchOrder::kSmallAtBothEnds),
              ElementsAre(1, 0, 2, 4, 3, 8, 5, 7, 9, 6));
}

TEST(OrderTest, EmptyMicrobatchesStayLast) {
  EXPECT_THAT(Ordered(MicrobatchOrder::kSmallAtBothEnds, /*one_empty=*/true),
              ElementsAre(1, 0, 2, 4, 3, 6, 7, 5, 8));
}

}  // namespace
}  // namespace batchplan
