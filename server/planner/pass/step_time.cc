#include "server/planner/pass/step_time.h"

#include <utility>
#include <vector>

#include "server/planner/pass/order.h"
#include "server/planner/pass/rank_orders.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {
namespace {

// The costs of rows, in the order in which they run.
std::vector<Cost> CostsInOrder(const Pass& pass, const Placement& placement) {
  if (pass.sizes_differ()) return RowCosts(pass, placement, MicrobatchCosts(pass, placement));
  const MicrobatchOrder asked = pass.order();
  const bool solvers = asked == MicrobatchOrder::kAsAssigned && pass.pipeline() == nullptr;
  std::vector<Cost> costs = MicrobatchCosts(pass, placement);
  std::vector<uint32_t> order;
  if (!solvers) order = MicrobatchesInOrder(asked, placement, costs);
  costs = RowCosts(pass, placement, std::move(costs));
  if (solvers) order = MicrobatchesInOrder(MicrobatchOrder::kLargestFirst, placement, costs);
  std::vector<Cost> ordered;
  ordered.reserve(costs.size());
  for (const uint32_t m : order) ordered.push_back(costs[m]);
  return ordered;
}

}  // namespace

TimedSlots TimedMicrobatches(const Pass& pass, std::span<const Cost> costs,
                             std::span<const uint32_t> context_sizes) {
  return pass.sizes_differ() ? TimedGroups(costs, context_sizes, pass.pool())
                             : TimedRanks(costs, pass.ranks());
}

Cost StepTime(const Pass& pass, const Placement& placement, const Allowance& allowance) {
  if (!pass.sizes_differ() && pass.order() == MicrobatchOrder::kPipeline) {
    return static_cast<Cost>(RankOrders(pass, placement, allowance).makespan());
  }
  const std::vector<Cost> costs = CostsInOrder(pass, placement);
  return pass.clock().Of(TimedMicrobatches(pass, costs, placement.context_sizes), allowance).time;
}

Cost TimeAsPlaced(const Pass& pass, const Placement& placement, const std::stop_token& stop) {
  if (pass.pipeline() == nullptr) return StepTime(pass, placement, stop);
  const std::vector<Cost> costs = RowCosts(pass, placement, MicrobatchCosts(pass, placement));
  return pass.clock().Of(TimedMicrobatches(pass, costs, placement.context_sizes), stop).time;
}

bool AffordsStepTime(const Pass& pass, const Placement& placement, const Allowance& allowance) {
  return pass.clock().Affords(placement.slots, placement.microbatches.size(), allowance);
}

bool AffordsStepTime(const Pass& pass, uint64_t slots, const Allowance& allowance) {
  return pass.clock().Affords(slots, slots * pass.ranks(), allowance);
}

}  // namespace batchplan
