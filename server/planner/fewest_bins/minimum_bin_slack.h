// Bins filled one after the other, each as full as can be found.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_MINIMUM_BIN_SLACK_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_MINIMUM_BIN_SLACK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>

#include "server/planner/fewest_bins/kinds.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

struct SlackSearch {
  // Steps of the search that one bin may take.
  uint64_t steps_a_bin = 20000;
  // Of bins without slack prefers those whose mean item is not shorter than that of the items left,
  // so that what small items there are still help when the last bins are filled.
  bool spare_small = false;
  // Draws which items are tried at all, a few percent fewer than there are; nothing: all.
  std::mt19937_64* random = nullptr;
};

// A packing of `demand` into at most `bins` bins, or nothing if that is not found. Each bin takes
// the longest item left and then, depth first in order of descending length, what leaves the least
// slack: J. N. D. Gupta, J. C. Ho, "A new heuristic algorithm for the one-dimensional bin-packing
// problem" (1999), with the fixed first item of K. Fleszar, K. S. Hindi, "New heuristics for
// one-dimensional bin-packing" (2002). Gives up as soon as too much is wasted. `steps` are taken off.
std::optional<Bins> MinimumBinSlack(const Kinds& kinds, std::span<const uint32_t> demand, size_t bins,
                                    const SlackSearch& search, uint64_t& steps);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_MINIMUM_BIN_SLACK_H_
