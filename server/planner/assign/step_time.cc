#include "server/planner/assign/step_time.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "server/planner/order.h"
#include "server/planner/rows.h"

namespace batchplan {

Cost StepTime(const PassInstance& pass, const Placement& placement) {
  std::vector<uint32_t> widths = placement.widths;
  if (pass.options().layout == Layout::kPacked) {
    PadRows(pass.options(), pass.length_multiple(), widths);
  }
  const bool lockstep = pass.synchronization() == Synchronization::kLockstep;
  const std::vector<uint32_t> order =
      MicrobatchesInOrder(pass, MicrobatchOrder::kLargestFirst, placement);
  std::vector<Cost> slots(placement.slots, 0);
  Cost busiest = 0;
  for (size_t rank = 0; rank < placement.ranks(); ++rank) {
    Cost sum = 0;
    for (size_t slot = 0; slot < placement.slots; ++slot) {
      const uint32_t m = order[rank * placement.slots + slot];
      const Cost cost = pass.CostOf(placement.microbatches[m], widths[m]);
      slots[slot] = std::max(slots[slot], cost);
      sum += cost;
    }
    busiest = std::max(busiest, sum);
  }
  return lockstep ? std::accumulate(slots.begin(), slots.end(), Cost{0}) : busiest;
}

}  // namespace batchplan
