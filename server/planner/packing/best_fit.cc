#include "server/planner/packing/best_fit.h"

#include <set>
#include <utility>
#include <vector>

namespace batchplan {

Bins PackBestFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits) {
  std::set<std::pair<uint32_t, uint32_t>> open;  // (tokens left, bin)
  std::vector<BinRoom> rooms;
  std::vector<uint32_t> bin_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    auto tightest = open.lower_bound({items.lengths[order[i]], 0});
    while (tightest != open.end() && !rooms[tightest->second].Holds(items, order[i])) ++tightest;
    if (tightest == open.end()) {
      bin_of[i] = static_cast<uint32_t>(rooms.size());
      rooms.emplace_back(limits);
    } else {
      bin_of[i] = tightest->second;
      open.erase(tightest);
    }
    BinRoom& room = rooms[bin_of[i]];
    room.Take(items, order[i]);
    if (room.tokens > 0 && room.sequences > 0) open.insert({room.tokens, bin_of[i]});
  }
  return Bins(order, bin_of, static_cast<uint32_t>(rooms.size()));
}

}  // namespace batchplan
