#include "server/planner/pass/step_time.h"

#include <utility>
#include <vector>

#include "server/planner/pass/order.h"
#include "server/planner/pass/rank_orders.h"
#include "server/planner/pass/slot_loads.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {
namespace {

// The costs of rows and of phases, in the order in which they run.
struct CostsInOrder {
  std::vector<Cost> rows;
  std::vector<std::vector<Cost>> phases;
};

std::vector<Cost> InOrder(std::span<const Cost> costs, std::span<const uint32_t> order) {
  std::vector<Cost> ordered;
  ordered.reserve(costs.size());
  for (const uint32_t m : order) ordered.push_back(costs[m]);
  return ordered;
}

CostsInOrder CostsInOrderOf(const Pass& pass, const Placement& placement) {
  if (pass.sizes_differ()) {
    return {.rows = RowCosts(pass, placement, MicrobatchCosts(pass, placement)), .phases = {}};
  }
  const MicrobatchOrder asked = pass.order();
  const bool solvers = asked == MicrobatchOrder::kAsAssigned && pass.pipeline() == nullptr;
  std::vector<Cost> costs = MicrobatchCosts(pass, placement);
  std::vector<uint32_t> order;
  if (!solvers) order = MicrobatchesInOrder(asked, placement, costs);
  costs = RowCosts(pass, placement, std::move(costs));
  if (solvers) order = MicrobatchesInOrder(MicrobatchOrder::kLargestFirst, placement, costs);
  if (pass.loads().phases().empty()) return {.rows = InOrder(costs, order), .phases = {}};
  SequenceLists microbatches;
  microbatches.Reserve(costs.size(), placement.microbatches.all().size());
  for (const uint32_t m : order) {
    microbatches.Push(placement.microbatches[m]);
    microbatches.Close();
  }
  return {.rows = InOrder(costs, order), .phases = PhaseCosts(pass, microbatches, placement.slots)};
}

}  // namespace

StepDuration StepOf(const Pass& pass, std::span<const Cost> rows,
                    std::span<const std::vector<Cost>> phases,
                    std::span<const uint32_t> context_sizes, const Allowance& allowance) {
  if (phases.empty()) {
    return pass.clock().Of(TimedMicrobatches(pass, rows, context_sizes), allowance);
  }
  std::vector<Cost> all(rows.begin(), rows.end());
  StepDuration step;
  for (const std::vector<Cost>& phase : phases) {
    if (pass.synchronization() == Synchronization::kLockstep) {
      step.time += pass.clock().Of(TimedRanks(phase, pass.ranks()), allowance).time;
      continue;
    }
    for (size_t m = 0; m < all.size(); ++m) all[m] += phase[m];
  }
  step.time += pass.clock().Of(TimedRanks(all, pass.ranks()), allowance).time;
  return step;
}

TimedSlots TimedMicrobatches(const Pass& pass, std::span<const Cost> costs,
                             std::span<const uint32_t> context_sizes) {
  return pass.sizes_differ() ? TimedGroups(costs, context_sizes, pass.pool())
                             : TimedRanks(costs, pass.ranks());
}

Cost StepTime(const Pass& pass, const Placement& placement, const Allowance& allowance) {
  if (!pass.sizes_differ() && pass.order() == MicrobatchOrder::kPipeline) {
    return static_cast<Cost>(RankOrders(pass, placement, allowance).makespan());
  }
  const CostsInOrder costs = CostsInOrderOf(pass, placement);
  return StepOf(pass, costs.rows, costs.phases, placement.context_sizes, allowance).time;
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
