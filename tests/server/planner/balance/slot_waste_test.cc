#include "server/planner/balance/slot_waste.h"

#include <gtest/gtest.h>

#include <vector>

namespace batchplan {
namespace {

TEST(SlotWasteTest, MicrobatchesBeyondTheItemsWasteTheirWholeFloor) {
  // One item fills a micro-batch of its slot; the other three of two slots are empty.
  const std::vector<ItemClass> classes = {{.cost = 10, .length = 10, .items = 1}};
  const std::vector<SlotFloor> floors = {{.cost = 10, .slots = 2}};
  EXPECT_EQ(LeastWaste(classes, floors, {.capacity = 10}, 2), 30);
}

TEST(SlotWasteTest, ItemsOfOneLengthMayCostDifferently) {
  // Of length 6 nothing shares a micro-batch: beside each 10 there is at most an 8, or a 5.
  const std::vector<ItemClass> classes = {{.cost = 10, .length = 6, .items = 1},
                                          {.cost = 8, .length = 6, .items = 1},
                                          {.cost = 5, .length = 6, .items = 1}};
  const std::vector<SlotFloor> floors = {{.cost = 10, .slots = 1}, {.cost = 5, .slots = 1}};
  EXPECT_EQ(LeastWaste(classes, floors, {.capacity = 10}, 2), 2 + 5);
}

}  // namespace
}  // namespace batchplan
