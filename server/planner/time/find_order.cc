#include "server/planner/time/find_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace batchplan {
namespace {

std::vector<double> InOrder(std::span<const double> costs, std::span<const uint32_t> order) {
  std::vector<double> ordered;
  ordered.reserve(order.size());
  for (const uint32_t i : order) ordered.push_back(costs[i]);
  return ordered;
}

}  // namespace

void PutSmallAtBothEnds(std::span<uint32_t> descending) {
  const std::vector<uint32_t> from(descending.begin(), descending.end());
  auto next = descending.begin();
  for (size_t i = (from.size() + 1) / 2; i > 0; --i) *next++ = from[2 * (i - 1)];
  for (size_t i = 1; i < from.size(); i += 2) *next++ = from[i];
}

PipelineOrder QuickOrder(PipelineSimulator& simulator, std::span<const double> costs,
                         std::span<const double> keys, size_t movable) {
  std::vector<uint32_t> as_they_stand(costs.size());
  std::iota(as_they_stand.begin(), as_they_stand.end(), 0u);
  PipelineOrder best = {.order = as_they_stand, .makespan = simulator.Makespan(costs)};
  if (movable < 2) return best;
  const std::span<const uint32_t> first = std::span(as_they_stand).first(movable);
  const std::span<const uint32_t> others = std::span(as_they_stand).subspan(movable);
  std::vector<uint32_t> descending(first.begin(), first.end());
  std::stable_sort(descending.begin(), descending.end(),
                   [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
  const std::vector<uint32_t> ascending(descending.rbegin(), descending.rend());
  std::vector<uint32_t> small_at_both_ends = descending;
  PutSmallAtBothEnds(small_at_both_ends);
  std::vector<uint32_t> rising_then_falling = ascending;
  const size_t filling = std::min<size_t>(simulator.pipeline().stages - 1, movable);
  std::ranges::reverse(std::span(rising_then_falling).subspan(filling));
  for (std::vector<uint32_t> order :
       {small_at_both_ends, rising_then_falling, ascending, descending}) {
    order.insert(order.end(), others.begin(), others.end());
    const double makespan = simulator.Makespan(InOrder(costs, order));
    if (makespan < best.makespan) best = {.order = std::move(order), .makespan = makespan};
  }
  return best;
}

uint64_t ImproveOrder(PipelineSimulator& simulator, std::span<const double> costs, size_t movable,
                      double enough, uint64_t simulations, std::minstd_rand& random,
                      PipelineOrder& order) {
  if (movable < 2) return 0;
  std::vector<double> ordered = InOrder(costs, order.order);
  for (; simulations > 0 && order.makespan >= enough; --simulations) {
    const size_t a = random() % movable;
    const size_t b = random() % movable;
    if (ordered[a] == ordered[b]) continue;
    std::swap(ordered[a], ordered[b]);
    const double makespan = simulator.Makespan(ordered);
    if (makespan < order.makespan) {
      order.makespan = makespan;
      std::swap(order.order[a], order.order[b]);
    } else {
      std::swap(ordered[a], ordered[b]);
    }
  }
  return simulations;
}

uint64_t SimulationsToImprove(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kThorough:
      return 3000;
    default:
      return 300;
  }
}

}  // namespace batchplan
