// Items into a given number of bins: a draft by the pass's packer or scan, then settled at the
// number wanted by packing tighter or by splitting bins.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_FILL_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_FILL_BINS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/padded/splits.h"
#include "server/planner/pass/pass.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The bins that the pass's packer makes of the items.
Bins DraftPacked(const Pass& pass, const Items& items, const SearchContext& context);

// Brings a draft to exactly `count` bins, at most the number of items. If the draft has too many
// bins, packs the items again, tighter. If it has too few, divides the items again into `count`
// bins (PACKER_KARMARKAR_KARP) or splits bins; `group` is as for SplitToCount. Nothing if no
// packing that tight is found within the allowance, or if a stop is requested.
std::optional<Bins> SettlePacked(const Pass& pass, const Items& items, const Bins& draft,
                                 size_t count, size_t group, const SearchContext& context);

// Items in the order of the padded layout's algorithms: by ascending width, ties by position. Items
// that run alone come last, whatever their width, each a run of its own. Owns its arrays.
class SortedItems {
 public:
  explicit SortedItems(const Items& items);

  PaddedItems view() const { return {.widths = widths_, .counts = counts_, .loads = loads_}; }
  size_t size() const { return order_.size(); }
  // The item at a position of the order.
  uint32_t operator[](size_t position) const { return order_[position]; }
  // Each run, or each bin of positions in the sorted order, as a bin of items.
  Bins BinsOf(const Cuts& cuts) const;
  Bins BinsOf(const Bins& positions) const;

 private:
  std::vector<uint32_t> order_;
  std::vector<uint32_t> widths_;
  std::vector<uint32_t> counts_;
  std::vector<RunLoad> loads_;
};

// The fewest runs of the sorted order.
size_t DraftPadded(const Pass& pass, const SortedItems& items);

// A lower bound on padded micro-batches for items of one sequence each: the runs that tokens and
// sequences need, which no packing beats, and the bins that each limited load needs.
size_t FewestPadded(const Pass& pass, const Items& items);

// Exactly `count` bins, at most the number of items, as the pass's scan makes them. If `count` is
// below the draft's number, no runs fit; if items are groups or have limited loads, other bins may,
// and are searched for. Nothing if none are found. Any bins once a stop is requested.
std::optional<Bins> SettlePadded(const Pass& pass, const Items& items, const SortedItems& sorted,
                                 size_t count, const Allowance& allowance);

// Raises the number of bins to `target`, at most items.size(). The items of the cheapest bins are
// spread evenly over these and the new bins (longest processing time first, within the limits): of
// the incomplete group of `group` bins and one whole group, or of more bins if these are too few.
// So full bins stay full and thin bins become alike; halving one bin at a time would leave some
// twice as costly as others. If the limits leave no room to spread, the costliest bin of at least
// two items is halved, again and again.
Bins SplitToCount(const Bins& bins, size_t target, size_t group, const Items& items,
                  const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_FILL_BINS_H_
