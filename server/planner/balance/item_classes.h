// Items that are alike, counted: a batch of a million sequences has a few thousand lengths.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_ITEM_CLASSES_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_ITEM_CLASSES_H_

#include <cstdint>
#include <vector>

#include "server/planner/packing/bins.h"

namespace batchplan {

// `items` items of the same length, cost and number of sequences.
struct ItemClass {
  uint64_t cost = 0;  // of one item
  uint32_t length = 0;
  uint32_t sequences = 1;  // in one item
  uint64_t items = 0;

  friend bool operator==(const ItemClass&, const ItemClass&) = default;
};

// The classes of items whose costs are items.loads, the costliest first, of equal costs the longest
// first. O(n + L) for sequences of at most L = O(n) tokens that cost the more the longer they are,
// O(n log n) otherwise.
std::vector<ItemClass> ClassesByCost(const PackItems& items);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_ITEM_CLASSES_H_
