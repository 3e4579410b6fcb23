// Padded micro-batches out of the items of one rank, or of all ranks at once.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_PADDED_FILL_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_PADDED_FILL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/items.h"
#include "server/planner/packing/bins.h"
#include "server/planner/padded/padded_items.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// Items by ascending width, ties by position, for the padded layout's algorithms.
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

// The fewest runs.
size_t DraftPadded(const PassInstance& pass, const SortedItems& items);

// Exactly `count` bins, at most the number of items, as the pass's scan makes them. Where `count`
// is below the draft's, which only groups that stay together can mend, bins that are no runs are
// searched for; nothing if none are found.
std::optional<Bins> SettlePadded(const PassInstance& pass, const Items& items,
                                 const SortedItems& sorted, size_t count);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_PADDED_FILL_H_
