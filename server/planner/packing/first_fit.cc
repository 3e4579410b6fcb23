#include "server/planner/packing/first_fit.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace batchplan {
namespace {

// The room left in every bin, as a tournament tree: room_[1] is the most room anywhere. A bin that
// nobody has opened has all its room, so first fit opens one exactly when no open bin fits.
class RoomTree {
 public:
  RoomTree(size_t bins, uint32_t capacity)
      : leaves_(std::bit_ceil(std::max<size_t>(bins, 1))), room_(2 * leaves_, capacity) {}

  // The lowest bin with room for `length`, of which there is one.
  size_t FirstFit(uint32_t length) const {
    size_t node = 1;
    while (node < leaves_) {
      node *= 2;
      if (room_[node] < length) ++node;
    }
    return node - leaves_;
  }

  uint32_t room(size_t bin) const { return room_[leaves_ + bin]; }

  void SetRoom(size_t bin, uint32_t room) {
    size_t node = leaves_ + bin;
    room_[node] = room;
    while (node > 1) {
      node /= 2;
      const uint32_t most = std::max(room_[2 * node], room_[2 * node + 1]);
      if (room_[node] == most) break;
      room_[node] = most;
    }
  }

 private:
  size_t leaves_;
  std::vector<uint32_t> room_;
};

}  // namespace

Bins PackFirstFit(std::span<const uint32_t> order, std::span<const uint32_t> lengths,
                  const BinLimits& limits) {
  RoomTree tree(order.size(), limits.capacity);
  std::vector<uint32_t> count(order.size(), 0);
  std::vector<uint32_t> bin_of(order.size());
  uint32_t bins = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t length = lengths[order[i]];
    const size_t bin = tree.FirstFit(length);
    const bool closed = ++count[bin] == limits.max_items;
    tree.SetRoom(bin, closed ? 0 : tree.room(bin) - length);
    bin_of[i] = static_cast<uint32_t>(bin);
    bins = std::max(bins, bin_of[i] + 1);
  }
  return Bins(order, bin_of, bins);
}

}  // namespace batchplan
