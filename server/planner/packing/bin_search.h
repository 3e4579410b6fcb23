// Depth-first searches for a packing into a given number of bins: bin by bin over kinds, heuristic
// and exact, and item by item.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BIN_SEARCH_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BIN_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/packing/lower_bounds.h"

namespace batchplan {

struct SlackSearch {
  // Steps of the search for one bin. More are not always better: bins filled to the last token may
  // leave items that fill no bin.
  uint64_t steps_a_bin = 0;
  // Among bins without slack, prefers those whose mean item is not shorter than the mean of the
  // items left. So it spares small items, which help to fill the last bins.
  bool spare_small = false;
};

// A packing into at most `bins` bins, or nothing if that is not found. The bins are filled one
// after the other: each gets the longest item left and then, by a depth-first search in order of
// descending length, the items that leave the least slack. J. N. D. Gupta, J. C. Ho, "A new
// heuristic algorithm for the one-dimensional bin-packing problem" (1999), with the fixed first
// item of K. Fleszar, K. S. Hindi, "New heuristics for one-dimensional bin-packing" (2002).
//
// Slack is measured by `worth`: what the worths of a bin's items lack of worth.most(). If worth is
// the length, slack is the room left. If it is a function that proves a better bound, slack is what
// the bin costs beyond that bound: perhaps nothing for a bin with room, and much for a full one.
// Gives up as soon as the filled bins lack too much, or once `stop` is requested. Deducts its work
// from `steps`.
std::optional<Bins> MinimumBinSlack(const Kinds& kinds, const DualFeasible& worth, size_t bins,
                                    const SlackSearch& search, uint64_t& steps,
                                    const std::stop_token& stop = {});

struct Completion {
  std::optional<Bins> bins;
  // If none was found, whether there is certainly none.
  bool exhausted = false;
};

// A packing of `demand` into at most `bins` bins, if there is one. Bin by bin, depth first: each
// gets the longest item left, with every set of other items that leaves no room for any item left
// over and no more slack than the bins can afford in all (R. E. Korf, "A new algorithm for optimal
// bin packing", AAAI 2002). Exact unless `steps`, from which it deducts its work, run out or `stop`
// is requested. Without recursion.
Completion CompleteBins(const Kinds& kinds, std::span<const uint32_t> demand, size_t bins,
                        uint64_t& steps, const std::stop_token& stop = {});

// The most items and steps of a search by SearchBins: beyond some dozen items it would rarely end.
inline constexpr size_t kMaxSearchedItems = 64;
inline constexpr uint64_t kMaxSearchSteps = uint64_t{1} << 14;
// The ticks of an allowance for each step.
inline constexpr uint64_t kTicksASearchStep = 100;

// Places the items of `order` one by one, depth first, into bins that start as `empty`. Each item
// is tried in every bin that holds it; among bins in the same state only in the first. Nothing if
// there is no packing into at most `bins` bins, or if none is found within `steps` placements, from
// which those made are deducted. Exact for some dozen items, of no use for many more. The recursion
// is as deep as there are items.
//
// Room has `bool Holds(item) const`, `void Take(item)` and ==. So it may have limits that the
// searches over kinds do not know, such as those on sequences or on padded widths.
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

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BIN_SEARCH_H_
