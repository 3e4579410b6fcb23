#include "server/planner/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;

// Two ranks of five slots; bin b holds item b alone.
struct TwoRanks {
  TwoRanks() {
    for (uint32_t item = 0; item < costs.size(); ++item) {
      assignment.bins.Add(std::vector<uint32_t>{item});
      assignment.bin_at.push_back(item);
    }
    assignment.slots = 5;
  }

  std::vector<uint32_t> Ordered(MicrobatchOrder order) {
    const Items items{.lengths = lengths, .costs = costs, .loads = costs};
    OrderMicrobatches(order, items, assignment);
    return assignment.bin_at;
  }

  std::vector<Cost> costs = {3, 1, 5, 2, 4, /* rank 1: */ 7, 7, 9, 6, 8};
  std::vector<uint32_t> lengths = std::vector<uint32_t>(10, 1);
  Assignment assignment;
};

TEST(OrderTest, AsAssignedChangesNothing) {
  EXPECT_THAT(TwoRanks().Ordered(MicrobatchOrder::kAsAssigned),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(OrderTest, LargestFirstSortsEachRankAndKeepsTies) {
  EXPECT_THAT(TwoRanks().Ordered(MicrobatchOrder::kLargestFirst),
              ElementsAre(2, 4, 0, 3, 1, 7, 9, 5, 6, 8));
}

TEST(OrderTest, SmallAtBothEndsRisesAndFalls) {
  // Costs 1, 3, 5, 4, 2: the even positions of the descending order reversed, then the odd ones.
  EXPECT_THAT(TwoRanks().Ordered(MicrobatchOrder::kSmallAtBothEnds),
              ElementsAre(1, 0, 2, 4, 3, 8, 5, 7, 9, 6));
}

}  // namespace
}  // namespace batchplan
