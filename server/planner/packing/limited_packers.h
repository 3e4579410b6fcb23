// Where loads are limited too: the room of many bins, best fit, and orders in which to fill them.
// Whoever packs asks packer.h, which comes here for items with limited loads.

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

// Bins with what is left of them. Views the items.
class LimitedRooms {
 public:
  LimitedRooms(const PackItems& items, std::vector<LimitedRoom> rooms);

  size_t size() const { return rooms_.size(); }
  const LimitedRoom& operator[](size_t bin) const { return rooms_[bin]; }
  // The first bin from `begin` on that holds the item; the number of bins if there is none. O(log
  // bins), and up to O(bins) more for an item whose room is in different bins.
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
// lowest-numbered. Bins are kept in classes by how much of each load they can take, so that few are
// looked at in vain; where many are, one with room may be passed over.
Bins LimitedBestFit(std::span<const uint32_t> order, const PackItems& items,
                    const BinLimits& limits);

// Orders in which first fit and best fit may need fewer bins than in that of descending length: by
// each limited load, by the sum of what an item takes of tokens and loads, each weighed by how
// scarce it is, and by the most that it takes of any. All descending, of equals the lower number
// first.
std::vector<std::vector<uint32_t>> LimitedOrders(const PackItems& items, const BinLimits& limits);

// By the most that an item takes of tokens or of a load, descending.
std::vector<uint32_t> ByLargestPart(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LIMITED_PACKERS_H_
