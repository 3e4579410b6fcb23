#include "server/planner/balance/count_bound.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace batchplan {
namespace {

uint64_t SumOfFirst(const std::vector<uint64_t>& costs, uint64_t count) {
  return std::accumulate(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(count),
                         uint64_t{0});
}

}  // namespace

// Let the slots of a plan be numbered by ascending maximum, D micro-batches of at least m sequences
// in each. The slots 1 .. k have at least k D m sequences: the costliest of these costs no less
// than the sequence of rank k D m in ascending order of all, and its micro-batch has m - 1 others,
// which cost no less than the m - 1 cheapest. No slot of these lasts longer than slot k.
uint64_t LockstepCountBound(const std::vector<uint64_t>& costs, uint32_t ranks,
                            const LeastCounts& least, uint64_t proven) {
  const uint64_t of_slot = ranks * least.in_microbatch;
  if (of_slot == 0 || least.slots == 0 || costs.size() / of_slot < least.slots) return 0;
  // No micro-batch's term is above this many of the last slot's sequence.
  const uint64_t most = proven / (least.slots * least.in_microbatch);
  const auto cheap = std::ranges::count_if(costs, [=](uint64_t cost) { return cost <= most; });
  if (static_cast<uint64_t>(cheap) >= least.slots * of_slot) return 0;
  std::vector<uint64_t> ascending = costs;
  const auto last = ascending.begin() + static_cast<std::ptrdiff_t>(least.slots * of_slot - 1);
  std::ranges::nth_element(ascending, last);
  std::sort(ascending.begin(), last);
  const uint64_t beside = SumOfFirst(ascending, least.in_microbatch - 1);
  uint64_t time = 0;
  for (uint64_t slot = 1; slot <= least.slots; ++slot) {
    time += ascending[slot * of_slot - 1] + beside;
  }
  return time;
}

// The rank of the costliest sequence has others beside it, in its micro-batch and in those of all
// other slots.
uint64_t AccumulatedCountBound(const std::vector<uint64_t>& costs, const LeastCounts& least,
                               uint64_t proven) {
  const uint64_t on_rank = std::max(least.on_rank, least.slots * least.in_microbatch);
  if (on_rank == 0 || costs.size() < on_rank) return 0;
  const uint64_t costliest = std::ranges::max(costs);
  // The cheapest cost no more than as many mean ones.
  const uint64_t mean = SumOfFirst(costs, costs.size()) / costs.size() + 1;
  if (costliest + (on_rank - 1) * mean <= proven) return 0;
  std::vector<uint64_t> cheapest = costs;
  std::ranges::nth_element(cheapest, cheapest.begin() + static_cast<std::ptrdiff_t>(on_rank - 1));
  return costliest + SumOfFirst(cheapest, on_rank - 1);
}

}  // namespace batchplan
