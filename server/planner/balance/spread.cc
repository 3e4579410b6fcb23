#include "server/planner/balance/spread.h"

#include <queue>
#include <tuple>
#include <utility>

#include "server/planner/partition/least_heap.h"

namespace batchplan {
namespace {

// Items from one look for a stop to the next.
constexpr size_t kItemsPerLook = 65536;

// A bin in the order in which bins take items.
struct Entry {
  uint64_t load = 0;
  uint32_t items = 0;
  uint32_t bin = 0;

  friend bool operator<(const Entry& a, const Entry& b) {
    return std::tie(a.load, a.items, a.bin) < std::tie(b.load, b.items, b.bin);
  }
};

}  // namespace

std::vector<uint32_t> Spread(std::span<const uint32_t> positions, uint32_t begin, uint32_t end,
                             uint64_t per_token, Filling& filling, const Allowance& allowance) {
  const Problem& problem = filling.problem();
  LeastHeap<Entry> least;
  // Bins that did not hold an item, the roomiest first: they wait for a shorter one.
  std::priority_queue<std::pair<int64_t, uint32_t>> waiting;
  const auto entry_of = [&](uint32_t bin) {
    const Filling::Load& load = filling[bin];
    const uint64_t tokens = problem.limits.capacity - static_cast<uint64_t>(load.room);
    return Entry{.load = load.cost + per_token * tokens, .items = load.items, .bin = bin};
  };
  for (uint32_t bin = begin; bin < end; ++bin) least.Push(entry_of(bin));

  std::vector<uint32_t> left_over;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (i % kItemsPerLook == 0 && allowance.stop_requested()) break;
    const uint32_t position = positions[i];
    while (!waiting.empty() && waiting.top().first >= problem.length[position]) {
      least.Push(entry_of(waiting.top().second));
      waiting.pop();
    }
    while (!least.empty()) {
      const uint32_t bin = least.Top().bin;
      if (filling.Holds(bin, position)) break;
      least.Pop();
      // A bin short of sequences is taken for full: single ones will not fit either.
      if (filling[bin].room < problem.length[position]) waiting.emplace(filling[bin].room, bin);
    }
    if (least.empty()) {
      left_over.push_back(position);
      continue;
    }
    const uint32_t bin = least.Top().bin;
    filling.Place(position, bin);
    least.RaiseTop(entry_of(bin));
  }
  return left_over;
}

}  // namespace batchplan
