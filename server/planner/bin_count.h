// How many micro-batches a rank must have, and how bins are split until there are that many.

#ifndef BATCHPLAN_SERVER_PLANNER_BIN_COUNT_H_
#define BATCHPLAN_SERVER_PLANNER_BIN_COUNT_H_

#include <cstddef>
#include <cstdint>

#include "server/planner/items.h"
#include "server/planner/options.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// The constraint on the micro-batches of one rank in one mini-batch.
struct CountRule {
  uint64_t minimum = 1;
  uint64_t multiple = 1;

  // The least allowed count that is at least `needed`.
  uint64_t RoundUp(uint64_t needed) const;
  // The greatest allowed count that is at most `available`; 0: there is none.
  uint64_t RoundDown(uint64_t available) const;
};

// The pass's minimum, and lcm(microbatch_count_multiple, PP if VPP > 1).
CountRule CountRuleOf(const Topology& topology, const PassOptions& pass);

// Raises the number of bins to `target`, at most items.size(), by splitting: the sequences of the
// cheapest bins, as many as end in the last `group` or the new ones, are spread evenly over
// themselves and the new bins (longest processing time first, within the limits). Full bins stay
// full and the thin ones become alike, where halving one bin at a time would leave some twice as
// costly as others. Where the limits leave no room to spread, the costliest bins are halved.
Bins SplitToCount(const Bins& bins, size_t target, size_t group, const Items& items,
                  const BinLimits& limits);

// Raises the number of bins to `target`, at most items.size(), by halving the costliest bin of two
// items or more, again and again.
Bins HalveCostliest(const Bins& bins, size_t target, const Items& items);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BIN_COUNT_H_
