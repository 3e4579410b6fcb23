#include "server/planner/order.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

void OrderMicrobatches(MicrobatchOrder order, const Items& items, Assignment& assignment) {
  if (order == MicrobatchOrder::kAsAssigned) return;
  std::vector<Cost> costs(assignment.bins.size(), 0);
  for (size_t bin = 0; bin < assignment.bins.size(); ++bin) {
    for (uint32_t item : assignment.bins[bin]) costs[bin] += items.costs[item];
  }
  for (size_t begin = 0; begin < assignment.bin_at.size(); begin += assignment.slots) {
    const std::span<uint32_t> rank = std::span(assignment.bin_at).subspan(begin, assignment.slots);
    std::stable_sort(rank.begin(), rank.end(),
                     [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
    if (order == MicrobatchOrder::kLargestFirst) continue;
    const std::vector<uint32_t> descending(rank.begin(), rank.end());
    auto next = rank.begin();
    for (size_t i = (descending.size() + 1) / 2; i > 0; --i) *next++ = descending[2 * (i - 1)];
    for (size_t i = 1; i < descending.size(); i += 2) *next++ = descending[i];
  }
}

}  // namespace batchplan
