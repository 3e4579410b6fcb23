// Exhaustive search for a packing into a given number of bins.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_SEARCH_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_SEARCH_BINS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"

namespace batchplan {

// What a search is worth: beyond some dozen items it would rarely come to an end.
inline constexpr size_t kMaxSearchedItems = 64;
inline constexpr uint64_t kMaxSearchSteps = uint64_t{1} << 14;
// Of an allowance.
inline constexpr uint64_t kUnitsASearchStep = 100;

// Places the items of `order` one by one, depth first, into bins that start as `empty`: each into
// every bin that holds it, of bins in the same state into the first only. Nothing if there is no
// packing into at most `bins` bins, or none was found within `steps` placements, of which those
// made are taken off: exact for some dozen items, of no use for many more. The recursion is as deep
// as there are items.
//
// Room has `bool Holds(item) const`, `void Take(item)` and ==.
template <typename Room>
std::optional<Bins> SearchBins(std::span<const uint32_t> order, size_t bins, const Room& empty,
                               uint64_t& steps) {
  std::vector<Room> rooms;
  std::vector<uint32_t> bin_of(order.size());
  const auto place = [&](const auto& self, size_t next) -> bool {
    if (next == order.size()) return true;
    for (size_t bin = 0; bin <= rooms.size() && bin < bins; ++bin) {
      const bool opened = bin == rooms.size();
      if (opened) rooms.push_back(empty);
      bool seen = !rooms[bin].Holds(order[next]);
      for (size_t other = 0; other < bin && !seen; ++other) seen = rooms[other] == rooms[bin];
      if (!seen && steps > 0) {
        --steps;
        const Room before = rooms[bin];
        rooms[bin].Take(order[next]);
        bin_of[next] = static_cast<uint32_t>(bin);
        if (self(self, next + 1)) return true;
        rooms[bin] = before;
      }
      if (opened) {
        rooms.pop_back();
        break;
      }
    }
    return false;
  };
  if (!place(place, 0)) return std::nullopt;
  return Bins(order, bin_of, static_cast<uint32_t>(rooms.size()));
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_SEARCH_BINS_H_
