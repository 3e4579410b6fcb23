#include "server/planner/place/group_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "server/planner/pass/context_time.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/step_time.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;

// A pool of four ranks with groups of one or two. A sequence costs its length divided by the ranks
// of its group.
class GroupPlacementTest : public ::testing::Test {
 protected:
  // The indexes of the sizes.
  static constexpr uint32_t kOne = 0;
  static constexpr uint32_t kTwo = 1;

  GroupPlacementTest() {
    options_.topology.data_parallel = 4;
    options_.topology.dynamic_context.emplace();
    options_.cost_model = {.per_token = 1, .per_token_squared = 0, .per_microbatch = 0};
    options_.passes.emplace_back();
    options_.passes[0].max_tokens_per_microbatch = 100;
    numbers_.Number(items_);
  }

  Pass PassWith(Synchronization synchronization) {
    options_.synchronization = synchronization;
    return *Pass::Create(manifest_, options_, 0,
                         {{.ranks = 1, .multiple = 1, .capacity = 100},
                          {.ranks = 2, .multiple = 4, .capacity = 200}},
                         planned_, alignments_, groups_, 1);
  }

  const std::vector<uint32_t> lengths_ = {10, 40, 30, 99, 50, 60, 20};
  const Manifest manifest_{.lengths = lengths_};
  PlanOptions options_;
  const Groups groups_{manifest_, GroupPolicy::kIgnore};
  const PlannedLengths planned_{.lengths = lengths_, .excluded = {}};
  Alignments alignments_{planned_.lengths};
  const SequenceLists items_ = [] {
    std::vector<SequenceIndex> all;
    for (uint32_t i = 0; i < 7; ++i) all.push_back(SequenceIndex(i));
    return SequenceLists::Singles(all);
  }();
  ItemNumbers numbers_{7};
  // The slots cost 0; 26 on the first two ranks; and 60 on the last rank.
  const ContextSlots slots_ = {{{kTwo, {}}, {kTwo, {}}},
                               {{kTwo, {4}}, {kOne, {0}}, {kOne, {6}}},
                               {{kTwo, {3}}, {kOne, {1, 0}}, {kOne, {5}}}};
};

std::vector<uint32_t> SequencesOf(const Placement& placement) {
  std::vector<uint32_t> sequences;
  for (const SequenceIndex sequence : placement.microbatches.all()) {
    sequences.push_back(sequence.value());
  }
  return sequences;
}

TEST_F(GroupPlacementTest, SlotsStandOneAfterTheOtherAndComeBack) {
  const Pass pass = PassWith(Synchronization::kLockstep);
  const Placement placement = PlacementOf(pass, items_, slots_);
  EXPECT_EQ(placement.slots, 3u);
  EXPECT_THAT(placement.context_sizes, ElementsAre(2, 2, 2, 1, 1, 2, 1, 1));
  EXPECT_THAT(placement.widths, ElementsAre(0, 0, 52, 10, 20, 100, 50, 60));
  EXPECT_THAT(SequencesOf(placement), ElementsAre(4, 0, 6, 3, 1, 0, 5));
  const ContextSlots back = numbers_.SlotsOf(pass, placement);
  ASSERT_EQ(back.size(), slots_.size());
  for (size_t slot = 0; slot < back.size(); ++slot) {
    ASSERT_EQ(back[slot].size(), slots_[slot].size());
    for (size_t g = 0; g < back[slot].size(); ++g) {
      EXPECT_EQ(back[slot][g].size, slots_[slot][g].size);
      EXPECT_EQ(back[slot][g].items, slots_[slot][g].items);
    }
  }
}

TEST_F(GroupPlacementTest, RanksOfOneSizeStandSlotBySlot) {
  Placement ranks;
  ranks.slots = 2;
  for (uint32_t i = 0; i < 4; ++i) {
    ranks.microbatches.Push(SequenceIndex(i));
    ranks.microbatches.Close();
    ranks.widths.push_back(lengths_[i]);
  }
  const Placement groups = OnGroups(ranks, 2);
  EXPECT_EQ(groups.slots, 2u);
  EXPECT_THAT(groups.context_sizes, ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(SequencesOf(groups), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(groups.widths, ElementsAre(10, 30, 40, 99));
}

TEST_F(GroupPlacementTest, APlacementRunsAsLongAsItsSlots) {
  for (const auto synchronization : {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    const Pass pass = PassWith(synchronization);
    const ContextProblem problem = *ContextProblemOf(pass, items_, {});
    const Cost time = StepTime(pass, PlacementOf(pass, items_, slots_), {});
    EXPECT_EQ(time, ContextTime(problem, slots_));
    // In lockstep, slots of 26 and 60 one after the other; accumulated, 20 and 60 on the last rank.
    const double expected = synchronization == Synchronization::kLockstep ? 86 : 80;
    EXPECT_EQ(pass.cost().ToUnits(time), expected);
  }
}

TEST_F(GroupPlacementTest, WholeSlotsAreOrderedAndThoseWithoutASequenceComeLast) {
  const Pass pass = PassWith(Synchronization::kLockstep);
  const auto ordered = [&](MicrobatchOrder order) {
    Placement placement = PlacementOf(pass, items_, slots_);
    OrderMicrobatches(pass, order, placement);
    EXPECT_EQ(placement.slots, 3u);
    return placement;
  };
  const Placement as_assigned = ordered(MicrobatchOrder::kAsAssigned);
  EXPECT_THAT(as_assigned.context_sizes, ElementsAre(2, 1, 1, 2, 1, 1, 2, 2));
  EXPECT_THAT(as_assigned.widths, ElementsAre(52, 10, 20, 100, 50, 60, 0, 0));
  EXPECT_THAT(SequencesOf(as_assigned), ElementsAre(4, 0, 6, 3, 1, 0, 5));
  const Placement largest_first = ordered(MicrobatchOrder::kLargestFirst);
  EXPECT_THAT(largest_first.widths, ElementsAre(100, 50, 60, 52, 10, 20, 0, 0));
  EXPECT_THAT(SequencesOf(largest_first), ElementsAre(3, 1, 0, 5, 4, 0, 6));
}

}  // namespace
}  // namespace batchplan
