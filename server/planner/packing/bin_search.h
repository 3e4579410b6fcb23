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
  // Steps of the search that one bin may take. Many are not always better: bins filled to the last
  // token with what comes to hand may leave a rest that fills none.
  uint64_t steps_a_bin = 0;
  // Of bins without slack, prefers those whose mean item is not shorter than that of the items
  // left. So small items are spared, which help when the last bins are filled.
  bool spare_small = false;
};

// A packing into at most `bins` bins, or nothing if that is not found. The bins are filled one
// after the other, each as well as can be found: a bin takes the longest item left and then, depth
// first in order of descending length, what leaves the least slack. J. N. D. Gupta, J. C. Ho, "A
// new heuristic algorithm for the one-dimensional bin-packing problem" (1999), with the fixed first
// item of K. Fleszar, K. S. Hindi, "New heuristics for one-dimensional bin-packing" (2002).
//
// Slack is measured by `worth`: what a bin's items lack of worth.most(). By their length it is the
// room left; by a function that proves a better bound it is what the bin costs beyond that bound,
// which may be nothing for a bin with room and much for a full one. Gives up as soon as the bins
// filled lack too much, or once `stop` is requested. `steps` are taken off.
std::optional<Bins> MinimumBinSlack(const Kinds& kinds, const DualFeasible& worth, size_t bins,
                                    const SlackSearch& search, uint64_t& steps,
                                    const std::stop_token& stop = {});

struct Completion {
  std::optional<Bins> bins;
  // Whether it is certain that there is no packing, where none was found.
  bool exhausted = false;
};

// A packing of `demand` into at most `bins` bins, if there is one. Bin by bin: each takes the
// longest item left and every set of others that leaves no room for an item left over and no more
// slack than the bins can afford in all, depth first (R. E. Korf, "A new algorithm for optimal bin
// packing", AAAI 2002). Exact within `steps`, which are taken off, and until `stop` is requested;
// without recursion.
Completion CompleteBins(const Kinds& kinds, std::span<const uint32_t> demand, size_t bins,
                        uint64_t& steps, const std::stop_token& stop = {});

// The most items and steps of a search by SearchBins: beyond some dozen items it would rarely end.
inline constexpr size_t kMaxSearchedItems = 64;
inline constexpr uint64_t kMaxSearchSteps = uint64_t{1} << 14;
// The ticks of an allowance for each step.
inline constexpr uint64_t kTicksASearchStep = 100;

// Places the items of `order` one by one, depth first, into bins that start as `empty`. Each item
// is tried in every bin that holds it, of bins in the same state in the first only. Nothing if
// there is no packing into at most `bins` bins, or if none is found within `steps` placements, from
// which those made are taken off. Exact for some dozen items, of no use for many more. The
// recursion is as deep as there are items.
//
// Room has `bool Holds(item) const`, `void Take(item)` and ==. So it may know limits that the
// searches over kinds do not, such as those on sequences or on padded widths.
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
