#include "server/planner/pass/order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/pass/rank_orders.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/time/find_order.h"
#include "server/planner/time/simulator.h"

namespace batchplan {
namespace {

// The number, in the pass's sizes, of the group that has micro-batch m.
size_t SizeOf(const Pass& pass, const Placement& placement, size_t m) {
  return pass.sizes_differ() ? pass.SizeOf(placement.context_sizes[m]) : 0;
}

// Sets every micro-batch's cost to that of the costliest in its slot.
void CostSlotsAlike(size_t slots, std::vector<Cost>& costs) {
  for (size_t slot = 0; slot < slots; ++slot) {
    Cost most = 0;
    for (size_t m = slot; m < costs.size(); m += slots) most = std::max(most, costs[m]);
    for (size_t m = slot; m < costs.size(); m += slots) costs[m] = most;
  }
}

void PutInOrder(std::span<const uint32_t> position, Placement& placement) {
  const SequenceLists& microbatches = placement.microbatches;
  SequenceLists ordered;
  ordered.Reserve(microbatches.size(), microbatches.all().size());
  std::vector<uint32_t> widths;
  widths.reserve(microbatches.size());
  std::vector<uint32_t> sizes;
  sizes.reserve(placement.context_sizes.size());
  for (const uint32_t m : position) {
    ordered.Push(microbatches[m]);
    ordered.Close();
    widths.push_back(placement.widths[m]);
    if (!placement.context_sizes.empty()) sizes.push_back(placement.context_sizes[m]);
  }
  placement.microbatches = std::move(ordered);
  placement.widths = std::move(widths);
  placement.context_sizes = std::move(sizes);
}

// Sorts micro-batches or slots, given as indices into `costs`.
void SortByCost(MicrobatchOrder order, std::span<const Cost> costs, std::span<uint32_t> numbers) {
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
  if (order == MicrobatchOrder::kSmallAtBothEnds) PutSmallAtBothEnds(numbers);
}

// The best order found for slots of these costs on one pipeline: number result[i] runs as number i.
// The first `movable` may change places.
std::vector<uint32_t> PipelineOrderOf(const Pass& pass, std::span<const double> costs,
                                      size_t movable, const Allowance& allowance) {
  PipelineSimulator simulator(*pass.pipeline(), static_cast<uint32_t>(costs.size()),
                              PipelineSimulator::Mode::kTime, allowance);
  const uint64_t works = std::max<uint64_t>(1, simulator.works());
  allowance.Spend(simulator.ticks());
  if (!allowance.Affords(simulator.ticks_each() * kQuickOrders)) {
    std::vector<uint32_t> as_they_stand(costs.size());
    std::iota(as_they_stand.begin(), as_they_stand.end(), 0u);
    return as_they_stand;
  }
  PipelineOrder found = QuickOrder(simulator, costs, costs, movable);
  const uint64_t simulations = std::min(SimulationsToImprove(Affordable(pass.effort(), allowance)),
                                        kMostWorksToImprove / works);
  std::minstd_rand random;
  ImproveOrder(simulator, costs, movable, /*enough=*/0, simulations, random, found);
  allowance.Spend(simulator.ticks_each() * simulator.simulations());
  return found.order;
}

// Sorts the slots of groups by `costs`, their costliest micro-batches. The first `movable` slots
// may change places.
void SortSlots(const Pass& pass, MicrobatchOrder order, std::span<const Cost> costs, size_t movable,
               const Allowance& allowance, std::vector<uint32_t>& slots) {
  if (order == MicrobatchOrder::kAsAssigned) return;
  if (order != MicrobatchOrder::kPipeline) {
    SortByCost(order, costs, std::span(slots).first(movable));
    return;
  }
  std::vector<double> times;
  times.reserve(slots.size());
  for (const uint32_t slot : slots) times.push_back(static_cast<double>(costs[slot]));
  const std::vector<uint32_t> before = slots;
  const std::vector<uint32_t> found = PipelineOrderOf(pass, times, movable, allowance);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = before[found[i]];
}

// The order that OrderMicrobatches gives the micro-batches of groups: number result[m] goes to
// position m.
std::vector<uint32_t> GroupsInOrder(const Pass& pass, MicrobatchOrder order,
                                    const Placement& placement, const Allowance& allowance) {
  const std::vector<Cost> rows = RowCosts(pass, placement, MicrobatchCosts(pass, placement));
  const TimedSlots timed = TimedMicrobatches(pass, rows, placement.context_sizes);
  std::vector<uint32_t> begins = {0};
  std::vector<Cost> costs;
  std::vector<uint32_t> slots;
  std::vector<uint32_t> empty;
  for (uint32_t slot = 0; slot < timed.size(); ++slot) {
    uint32_t m = begins.back();
    const uint32_t end = m + static_cast<uint32_t>(timed[slot].size());
    while (m < end && placement.microbatches[m].empty()) ++m;
    (m == end ? empty : slots).push_back(slot);
    begins.push_back(end);
    costs.push_back(timed.Costliest(slot));
  }
  const size_t movable = slots.size();
  slots.insert(slots.end(), empty.begin(), empty.end());
  SortSlots(pass, order, costs, movable, allowance, slots);
  std::vector<uint32_t> position;
  position.reserve(placement.microbatches.size());
  for (const uint32_t slot : slots) {
    for (uint32_t m = begins[slot]; m < begins[slot + 1]; ++m) position.push_back(m);
  }
  return position;
}

bool HasEmpty(const SequenceLists& microbatches) {
  for (size_t m = 0; m < microbatches.size(); ++m) {
    if (microbatches[m].empty()) return true;
  }
  return false;
}

}  // namespace

std::vector<Cost> MicrobatchCosts(const Pass& pass, const Placement& placement) {
  std::vector<Cost> costs(placement.microbatches.size());
  for (size_t m = 0; m < costs.size(); ++m) {
    costs[m] =
        pass.CostOf(placement.microbatches[m], placement.widths[m], SizeOf(pass, placement, m));
  }
  return costs;
}

std::vector<Cost> RowCosts(const Pass& pass, const Placement& placement, std::vector<Cost> costs) {
  const std::vector<uint32_t> rows = pass.RowWidths(placement.widths, placement.context_sizes);
  for (size_t m = 0; m < costs.size(); ++m) {
    if (rows[m] == placement.widths[m]) continue;
    costs[m] += pass.cost(SizeOf(pass, placement, m)).OfTail(rows[m] - placement.widths[m]);
  }
  return costs;
}

std::vector<uint32_t> MicrobatchesInOrder(MicrobatchOrder order, const Placement& placement,
                                          std::vector<Cost> costs) {
  const SequenceLists& microbatches = placement.microbatches;
  std::vector<uint32_t> position(microbatches.size());
  std::iota(position.begin(), position.end(), 0u);
  if (order == MicrobatchOrder::kAsAssigned) return position;
  if (placement.whole_slots) CostSlotsAlike(placement.slots, costs);
  // Only micro-batches before a rank's empty ones change places, or slots before the empty ones.
  const auto filled_of = [&](size_t begin) {
    const std::span<const uint32_t> rank = std::span(position).subspan(begin, placement.slots);
    return std::find_if(rank.begin(), rank.end(),
                        [&](uint32_t m) { return microbatches[m].empty(); }) -
           rank.begin();
  };
  ptrdiff_t filled_on_all = placement.slots;
  for (size_t begin = 0; begin < position.size() && placement.whole_slots;
       begin += placement.slots) {
    filled_on_all = std::min(filled_on_all, filled_of(begin));
  }
  for (size_t begin = 0; begin < position.size(); begin += placement.slots) {
    const ptrdiff_t filled = placement.whole_slots ? filled_on_all : filled_of(begin);
    SortByCost(order, costs, std::span(position).subspan(begin, static_cast<size_t>(filled)));
  }
  return position;
}

void OrderMicrobatches(const Pass& pass, MicrobatchOrder order, Placement& placement,
                       const Allowance& allowance) {
  if (pass.sizes_differ()) {
    if (order == MicrobatchOrder::kAsAssigned && !HasEmpty(placement.microbatches)) return;
    PutInOrder(GroupsInOrder(pass, order, placement, allowance), placement);
    return;
  }
  if (order == MicrobatchOrder::kAsAssigned) return;
  if (order == MicrobatchOrder::kPipeline && !AffordsStepTime(pass, placement, allowance)) return;
  PutInOrder(order == MicrobatchOrder::kPipeline
                 ? RankOrders(pass, placement, allowance).Positions()
                 : MicrobatchesInOrder(order, placement, MicrobatchCosts(pass, placement)),
             placement);
}

void PutCostliestRowsFirst(const Pass& pass, Placement& placement) {
  if (pass.pipeline() != nullptr || pass.order() != MicrobatchOrder::kAsAssigned) return;
  PutInOrder(MicrobatchesInOrder(MicrobatchOrder::kLargestFirst, placement,
                                 RowCosts(pass, placement, MicrobatchCosts(pass, placement))),
             placement);
}

}  // namespace batchplan
