#include "server/planner/balance/spread.h"

#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace batchplan {

std::vector<uint32_t> Spread(std::span<const uint32_t> positions, uint32_t begin, uint32_t end,
                             uint64_t per_token, Filling& filling) {
  const Problem& problem = filling.problem();
  using Entry = std::tuple<uint64_t, size_t, uint32_t>;  // load, items, bin
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> least;
  // Bins that did not hold an item, the roomiest first: they wait for a shorter one.
  std::priority_queue<std::pair<int64_t, uint32_t>> waiting;
  const auto open = [&](uint32_t bin) {
    const Filling::Load& load = filling[bin];
    const uint64_t tokens = problem.limits.capacity - static_cast<uint64_t>(load.room);
    least.emplace(load.cost + per_token * tokens, filling.Members(bin).size(), bin);
  };
  for (uint32_t bin = begin; bin < end; ++bin) open(bin);

  std::vector<uint32_t> left_over;
  for (uint32_t position : positions) {
    while (!waiting.empty() && waiting.top().first >= problem.length[position]) {
      open(waiting.top().second);
      waiting.pop();
    }
    while (!least.empty()) {
      const uint32_t bin = std::get<2>(least.top());
      if (filling.Holds(bin, position)) break;
      least.pop();
      // A bin short of sequences is taken for full: single ones will not fit either.
      if (filling[bin].room < problem.length[position]) waiting.emplace(filling[bin].room, bin);
    }
    if (least.empty()) {
      left_over.push_back(position);
      continue;
    }
    const uint32_t bin = std::get<2>(least.top());
    least.pop();
    filling.Place(position, bin);
    open(bin);
  }
  return left_over;
}

}  // namespace batchplan
