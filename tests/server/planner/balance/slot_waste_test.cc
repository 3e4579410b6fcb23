#include "server/planner/balance/slot_waste.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::Cases;
using testing::RandomStream;

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

constexpr uint64_t kCeiling = uint64_t{1} << 60;

// The largest value of items that fit, each used any number of times.
uint64_t Knapsack(const std::vector<ItemClass>& items, uint64_t price, uint32_t room,
                  uint32_t longest) {
  std::vector<uint64_t> most(room + 1, 0);
  for (uint32_t tokens = 1; tokens <= room; ++tokens) {
    for (const ItemClass& item : items) {
      if (item.length > std::min(tokens, longest)) continue;
      const uint64_t counts = std::min(item.cost, price * item.length);
      most[tokens] = std::max(most[tokens], most[tokens - item.length] + counts);
    }
  }
  return most[room];
}

TEST(CompanionsTest, TheLongestOfThemIsTakenOnce) {
  // Squares: beside one of 60 there is room for 30, not for half of another.
  const std::vector<ItemClass> items = {{.cost = 900, .length = 30, .items = 9},
                                        {.cost = 3600, .length = 60, .items = 9}};
  const Companions companions(items, 100, kCeiling);
  EXPECT_EQ(companions.Most(1000, 90, 90), 3600 + 900);
  EXPECT_EQ(companions.Most(1000, 90, 59), 3 * 900);
  EXPECT_EQ(companions.Most(1, 90, 90), 90);
  EXPECT_EQ(companions.TokenCost(60), 60);
  EXPECT_EQ(companions.TokenCost(29), 0);
}

TEST(CompanionsTest, NothingThatFitsCountsMore) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < Cases(2000); ++i) {
    // Beyond 2048 tokens, lengths are looked at in steps.
    const auto capacity = static_cast<uint32_t>(random.OneOf<uint64_t>({10, 100, 5000}));
    const bool squares = random.Chance(50);
    std::vector<ItemClass> items;
    for (uint64_t n = random.Between(1, 12); n > 0; --n) {
      const auto length = static_cast<uint32_t>(random.Between(1, capacity));
      const uint64_t cost = squares ? uint64_t{length} * length : random.Between(0, 1000);
      items.push_back({.cost = cost, .length = length, .items = 1});
    }
    std::sort(items.begin(), items.end(),
              [](const ItemClass& a, const ItemClass& b) { return a.length < b.length; });
    const Companions companions(items, capacity, kCeiling);
    const auto room = static_cast<uint32_t>(random.Between(0, capacity));
    const auto longest = static_cast<uint32_t>(random.Between(0, room));
    const uint64_t price = random.Between(0, 2 * capacity);
    ASSERT_GE(companions.Most(price, room, longest), Knapsack(items, price, room, longest));
  }
}

}  // namespace
}  // namespace batchplan
