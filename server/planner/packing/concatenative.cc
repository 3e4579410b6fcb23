#include "server/planner/packing/concatenative.h"

#include <numeric>
#include <vector>

namespace batchplan {

Bins PackConcatenative(const PackItems& items, const BinLimits& limits) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<uint32_t> bin_of(items.size());
  uint32_t bins = 0;
  BinRoom room(limits);
  for (uint32_t item : order) {
    if (bins == 0 || !room.Holds(items, item)) {
      ++bins;
      room = BinRoom(limits);
    }
    bin_of[item] = bins - 1;
    room.Take(items, item);
  }
  return Bins(order, bin_of, bins);
}

}  // namespace batchplan
