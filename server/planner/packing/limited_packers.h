// Packing with limited loads: the room of many bins, best fit, and orders in which to fill them.
// Callers use packer.h, which comes here for items with limited loads.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_PACKERS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_PACKERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/maxima.h"

namespace batchplan {

// The rooms of bins. Views the items.
class LimitedRooms {
 public:
  LimitedRooms(const PackItems& items, std::vector<LimitedRoom> rooms);

  size_t size() const { return rooms_.size(); }
  const LimitedRoom& operator[](size_t bin) const { return rooms_[bin]; }
  // The first bin from `begin` on that holds the item; the number of bins if there is none. O(log
  // bins), and up to O(bins) more if different bins have room in different respects.
  size_t FirstThatHolds(size_t begin, uint32_t item);
  void Take(size_t bin, uint32_t item);

 private:
  // The room of a bin in the tree.
  void Note(size_t bin);

  const PackItems& items_;
  std::vector<LimitedRoom> rooms_;
  std::vector<double> numbers_;  // of an item or a bin
  Maxima<double> most_;
};

// Each item of `order` into the bin that holds it with the fewest tokens left, of equal ones the
// lowest-numbered. Bins are kept in classes by their room for each load, so that few are looked at
// in vain. If many would be, a bin with room may be missed.
Bins LimitedBestFit(std::span<const uint32_t> order, const PackItems& items,
                    const BinLimits& limits);

// Orders in which first fit and best fit may need fewer bins than by descending length: by each
// limited load, by the sum of an item's tokens and loads, each weighed by its scarcity, and by
// ByLargestPart. All descending, of equals the lower number first.
std::vector<std::vector<uint32_t>> LimitedOrders(const PackItems& items, const BinLimits& limits);

// Descending by the largest part that an item has of a bin's tokens or of any of its loads.
std::vector<uint32_t> ByLargestPart(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_PACKERS_H_
