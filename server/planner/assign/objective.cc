#include "server/planner/assign/objective.h"

namespace batchplan {

Objective ObjectiveOf(const PassInstance& pass, const Items& items) {
  const PassOptions& options = pass.options();
  Objective objective;
  if (options.balance_on == BalanceOn::kTokens) {
    objective.loads.assign(items.lengths.begin(), items.lengths.end());
    return objective;
  }
  objective.loads = items.costs;
  objective.per_microbatch = pass.cost().OfMicrobatch();
  objective.is_cost = true;
  if (options.rows == RowPadding::kLongest || options.rows == RowPadding::kCapacity) {
    objective.is_cost = false;
    objective.per_microbatch += pass.cost().OfTail(pass.bin_limits().capacity);
    for (uint32_t i = 0; i < items.size(); ++i) {
      const Cost tail = pass.cost().OfTail(items.lengths[i]);
      objective.loads[i] -= tail < items.costs[i] ? tail : items.costs[i];
    }
  }
  return objective;
}

}  // namespace batchplan
