// What is left of a bin in tokens, in sequences and in each limited load.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_ROOM_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_ROOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/planner/packing/bins.h"
#include "server/planner/request/options.h"

namespace batchplan {

// As BinRoom, of items with limited loads.
class LimitedRoom {
 public:
  LimitedRoom(const PackItems& items, const BinLimits& limits) : room_(limits) {
    for (size_t load = 0; load < items.limited.size(); ++load) {
      left_[load] = items.limited[load].most;
    }
  }

  uint32_t tokens() const { return room_.tokens; }
  uint32_t sequences() const { return room_.sequences; }
  double left(size_t load) const { return left_[load]; }

  bool Holds(const PackItems& items, uint32_t item) const {
    if (!room_.Holds(items, item)) return false;
    for (size_t load = 0; load < items.limited.size(); ++load) {
      if (items.limited[load].values[item] > left_[load]) return false;
    }
    return true;
  }
  void Take(const PackItems& items, uint32_t item) {
    room_.Take(items, item);
    for (size_t load = 0; load < items.limited.size(); ++load) {
      left_[load] -= items.limited[load].values[item];
    }
  }

  friend bool operator==(const LimitedRoom&, const LimitedRoom&) = default;

 private:
  BinRoom room_;
  std::array<double, kMaxLoads> left_ = {};
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_ROOM_H_
