// Items in the order that the padded layout's algorithms walk.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SORTED_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SORTED_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/items.h"
#include "server/planner/packing/bins.h"
#include "server/planner/padded/splits.h"

namespace batchplan {

// By ascending width, ties by position. Owns its arrays.
class SortedItems {
 public:
  explicit SortedItems(const Items& items);

  PaddedItems view() const { return {.widths = widths_, .counts = counts_}; }
  size_t size() const { return order_.size(); }
  // Each run, or each bin of positions in the sorted order, as a bin of items.
  Bins BinsOf(const Cuts& cuts) const;
  Bins BinsOf(const Bins& positions) const;

 private:
  std::vector<uint32_t> order_;
  std::vector<uint32_t> widths_;
  std::vector<uint32_t> counts_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SORTED_ITEMS_H_
