#include "server/planner/packing/concatenative.h"

#include <numeric>
#include <utility>
#include <vector>

namespace batchplan {

Bins PackConcatenative(const PackItems& items, const BinLimits& limits) {
  if (items.size() == 0) return Bins();
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<uint32_t> offsets = {0};
  BinRoom room(limits);
  for (uint32_t item : order) {
    if (!room.Holds(items, item)) {
      offsets.push_back(item);
      room = BinRoom(limits);
    }
    room.Take(items, item);
  }
  offsets.push_back(static_cast<uint32_t>(items.size()));
  return Bins(std::move(order), std::move(offsets));
}

}  // namespace batchplan
