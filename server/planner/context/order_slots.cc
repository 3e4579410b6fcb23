#include "server/planner/context/order_slots.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "server/planner/context/context_time.h"
#include "server/planner/pipeline/find_order.h"
#include "server/planner/pipeline/simulator.h"

namespace batchplan {
namespace {

bool IsEmpty(const std::vector<ContextGroup>& slot) {
  return std::all_of(slot.begin(), slot.end(),
                     [](const ContextGroup& group) { return group.items.empty(); });
}

void PutInOrder(std::span<const uint32_t> order, ContextSlots& slots) {
  ContextSlots ordered;
  ordered.reserve(slots.size());
  for (const uint32_t slot : order) ordered.push_back(std::move(slots[slot]));
  slots = std::move(ordered);
}

std::vector<uint32_t> PipelineOrderOf(const ContextProblem& problem, const std::vector<Cost>& costs,
                                      size_t movable, const Allowance& allowance) {
  PipelineSimulator simulator(*problem.pipeline, static_cast<uint32_t>(costs.size()),
                              PipelineSimulator::Mode::kTime, allowance);
  const uint64_t works = std::max<uint64_t>(1, simulator.works());
  allowance.Spend(simulator.ticks());
  if (!allowance.Affords(simulator.ticks_each() * kQuickOrders)) {
    std::vector<uint32_t> as_they_stand(costs.size());
    std::iota(as_they_stand.begin(), as_they_stand.end(), 0u);
    return as_they_stand;
  }
  const std::vector<double> times(costs.begin(), costs.end());
  PipelineOrder found = QuickOrder(simulator, times, times, movable);
  const uint64_t simulations = std::min(SimulationsToImprove(Affordable(problem.effort, allowance)),
                                        kMostWorksToImprove / works);
  std::minstd_rand random;
  ImproveOrder(simulator, times, movable, /*enough=*/0, simulations, random, found);
  allowance.Spend(simulator.ticks_each() * simulator.simulations());
  return found.order;
}

}  // namespace

void OrderSlots(const ContextProblem& problem, MicrobatchOrder order, const Allowance& allowance,
                ContextSlots& slots) {
  const size_t movable = std::stable_partition(slots.begin(), slots.end(),
                                               [](const auto& slot) { return !IsEmpty(slot); }) -
                         slots.begin();
  if (order == MicrobatchOrder::kAsAssigned) return;
  const TimedSlots timed = TimedContextSlots(problem, slots);
  std::vector<Cost> costs;
  costs.reserve(timed.size());
  for (size_t slot = 0; slot < timed.size(); ++slot) costs.push_back(timed.Costliest(slot));
  if (order == MicrobatchOrder::kPipeline) {
    PutInOrder(PipelineOrderOf(problem, costs, movable, allowance), slots);
    return;
  }
  std::vector<uint32_t> position(slots.size());
  std::iota(position.begin(), position.end(), 0u);
  const std::span<uint32_t> filled = std::span(position).first(movable);
  std::stable_sort(filled.begin(), filled.end(),
                   [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
  if (order == MicrobatchOrder::kSmallAtBothEnds) PutSmallAtBothEnds(filled);
  PutInOrder(position, slots);
}

}  // namespace batchplan
