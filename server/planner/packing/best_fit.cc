#include "server/planner/packing/best_fit.h"

#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace batchplan {

Bins PackBestFit(std::span<const uint32_t> order, std::span<const uint32_t> lengths,
                 const BinLimits& limits) {
  std::set<std::pair<uint32_t, uint32_t>> open;  // (room, bin)
  std::vector<uint32_t> count;
  std::vector<uint32_t> bin_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t length = lengths[order[i]];
    uint32_t room = limits.capacity;
    auto tightest = open.lower_bound({length, 0});
    if (tightest == open.end()) {
      bin_of[i] = static_cast<uint32_t>(count.size());
      count.push_back(0);
    } else {
      std::tie(room, bin_of[i]) = *tightest;
      open.erase(tightest);
    }
    if (++count[bin_of[i]] < limits.max_items && room > length) {
      open.insert({room - length, bin_of[i]});
    }
  }
  return Bins(order, bin_of, static_cast<uint32_t>(count.size()));
}

}  // namespace batchplan
