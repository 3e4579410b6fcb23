#include "server/planner/step_time.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/order.h"
#include "server/planner/pipeline/rank_orders.h"
#include "server/planner/pipeline/simulator.h"

namespace batchplan {
namespace {

// The costs of rows, in the order in which they run.
std::vector<Cost> CostsInOrder(const PassInstance& pass, const Placement& placement) {
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

Cost PipelineStepTime(const PassInstance& pass, const Placement& placement,
                      const Allowance& allowance) {
  if (pass.order() == MicrobatchOrder::kPipeline) {
    return static_cast<Cost>(RankOrders(pass, placement, allowance).makespan());
  }
  const std::vector<Cost> costs = CostsInOrder(pass, placement);
  const std::vector<double> ordered(costs.begin(), costs.end());
  return static_cast<Cost>(PipelineTimeOf(*pass.pipeline(), pass.synchronization(), ordered,
                                          placement.ranks(), allowance)
                               .makespan);
}

}  // namespace

Cost StepTime(const PassInstance& pass, const Placement& placement, const Allowance& allowance) {
  if (pass.pipeline() != nullptr) return PipelineStepTime(pass, placement, allowance);
  const std::vector<Cost> costs = CostsInOrder(pass, placement);
  const bool lockstep = pass.synchronization() == Synchronization::kLockstep;
  std::vector<Cost> slots(placement.slots, 0);
  Cost busiest = 0;
  for (size_t rank = 0; rank < placement.ranks(); ++rank) {
    Cost sum = 0;
    for (size_t slot = 0; slot < placement.slots; ++slot) {
      const Cost cost = costs[rank * placement.slots + slot];
      slots[slot] = std::max(slots[slot], cost);
      sum += cost;
    }
    busiest = std::max(busiest, sum);
  }
  return lockstep ? std::accumulate(slots.begin(), slots.end(), Cost{0}) : busiest;
}

bool AffordsStepTime(const PassInstance& pass, uint64_t slots, const Allowance& allowance) {
  if (pass.pipeline() == nullptr) return true;
  const bool lockstep = pass.synchronization() == Synchronization::kLockstep;
  const uint64_t works = 2 * slots * pass.pipeline()->virtual_stages();
  return allowance.Affords((kTicksAWork + kTicksToPlaceAWork) * works *
                           (lockstep ? 1 : pass.ranks()));
}

PipelineTime PipelineTimeOf(const Pipeline& pipeline, Synchronization synchronization,
                            std::span<const double> costs, size_t ranks,
                            const Allowance& allowance) {
  const size_t slots = costs.size() / ranks;
  PipelineSimulator simulator(pipeline, static_cast<uint32_t>(slots),
                              PipelineSimulator::Mode::kTime, allowance);
  const double busiest = pipeline.BusiestShare();
  const auto time_of = [&](std::span<const double> rank) {
    return PipelineTime{.makespan = simulator.Makespan(rank),
                        .work = busiest * std::accumulate(rank.begin(), rank.end(), 0.0)};
  };
  const bool lockstep = synchronization == Synchronization::kLockstep;
  allowance.Spend(simulator.ticks() + simulator.ticks_each() * (lockstep ? 1 : ranks));
  if (lockstep) {
    std::vector<double> most(slots, 0);
    for (size_t m = 0; m < costs.size(); ++m) most[m % slots] = std::max(most[m % slots], costs[m]);
    return time_of(most);
  }
  PipelineTime slowest;
  for (size_t rank = 0; rank < ranks && !allowance.stop_requested(); ++rank) {
    const PipelineTime time = time_of(costs.subspan(rank * slots, slots));
    if (rank == 0 || time.makespan > slowest.makespan) slowest = time;
  }
  return slowest;
}

}  // namespace batchplan
