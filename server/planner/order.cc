#include "server/planner/order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/pipeline/find_order.h"
#include "server/planner/pipeline/rank_orders.h"
#include "server/planner/step_time.h"

namespace batchplan {
namespace {

// Gives every micro-batch the cost of the costliest in its slot.
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
  for (const uint32_t m : position) {
    ordered.Push(microbatches[m]);
    ordered.Close();
    widths.push_back(placement.widths[m]);
  }
  placement.microbatches = std::move(ordered);
  placement.widths = std::move(widths);
}

}  // namespace

std::vector<Cost> MicrobatchCosts(const Pass& pass, const Placement& placement) {
  std::vector<Cost> costs(placement.microbatches.size());
  for (size_t m = 0; m < costs.size(); ++m) {
    costs[m] = pass.CostOf(placement.microbatches[m], placement.widths[m]);
  }
  return costs;
}

std::vector<Cost> RowCosts(const Pass& pass, const Placement& placement, std::vector<Cost> costs) {
  const std::vector<uint32_t> rows = pass.RowWidths(placement.widths);
  for (size_t m = 0; m < costs.size(); ++m) {
    costs[m] += pass.cost().OfTail(rows[m] - placement.widths[m]);
  }
  return costs;
}

std::vector<uint32_t> MicrobatchesInOrder(MicrobatchOrder order, const Placement& placement,
                                          std::vector<Cost> costs) {
  const SequenceLists& microbatches = placement.microbatches;
  std::vector<uint32_t> position(microbatches.size());
  std::iota(position.begin(), position.end(), 0u);
  if (order == MicrobatchOrder::kAsAssigned) return position;
  if (placement.same_widths) CostSlotsAlike(placement.slots, costs);
  for (size_t begin = 0; begin < position.size(); begin += placement.slots) {
    std::span<uint32_t> rank = std::span(position).subspan(begin, placement.slots);
    rank = rank.first(std::find_if(rank.begin(), rank.end(),
                                   [&](uint32_t m) { return microbatches[m].empty(); }) -
                      rank.begin());
    std::stable_sort(rank.begin(), rank.end(),
                     [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
    if (order == MicrobatchOrder::kSmallAtBothEnds) PutSmallAtBothEnds(rank);
  }
  return position;
}

void OrderMicrobatches(const Pass& pass, MicrobatchOrder order, Placement& placement,
                       const Allowance& allowance) {
  if (order == MicrobatchOrder::kAsAssigned) return;
  if (order == MicrobatchOrder::kPipeline && !AffordsStepTime(pass, placement.slots, allowance)) {
    return;
  }
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
