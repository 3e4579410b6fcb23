// What the assignment of one mini-batch works on.

#ifndef BATCHPLAN_SERVER_PLANNER_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_ITEMS_H_

#include <cstdint>
#include <span>

#include "server/planner/cost.h"

namespace batchplan {

// The sequences of a mini-batch, known by their position in it: aligned lengths, costs, and the
// loads that ranks are balanced by (the one or the other). Views, all of one size.
struct Items {
  std::span<const uint32_t> lengths;
  std::span<const Cost> costs;
  std::span<const uint64_t> loads;

  uint32_t size() const { return static_cast<uint32_t>(lengths.size()); }
  Items Slice(size_t begin, size_t count) const {
    return {lengths.subspan(begin, count), costs.subspan(begin, count),
            loads.subspan(begin, count)};
  }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ITEMS_H_
