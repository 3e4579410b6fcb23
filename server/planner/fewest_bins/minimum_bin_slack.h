// Bins filled one after the other, each as well as can be found.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_MINIMUM_BIN_SLACK_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_MINIMUM_BIN_SLACK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>

#include "server/planner/fewest_bins/kinds.h"
#include "server/planner/packing/bins.h"
#include "server/planner/packing/dual_feasible.h"

namespace batchplan {

struct SlackSearch {
  // Steps of the search that one bin may take. Many are not always better: bins filled to the last
  // token with what comes to hand may leave a rest that fills none.
  uint64_t steps_a_bin = 0;
  // Of bins without slack prefers those whose mean item is not shorter than that of the items left,
  // so that what small items there are still help when the last bins are filled.
  bool spare_small = false;
};

// A packing into at most `bins` bins, or nothing if that is not found. Each bin takes the longest
// item left and then, depth first in order of descending length, what leaves the least slack:
// J. N. D. Gupta, J. C. Ho, "A new heuristic algorithm for the one-dimensional bin-packing problem"
// (1999), with the fixed first item of K. Fleszar, K. S. Hindi, "New heuristics for one-dimensional
// bin-packing" (2002).
//
// Slack is measured by `worth`: what a bin's items lack of worth.most(). By their length it is the
// room left; by a function that proves a better bound it is what the bin costs beyond that bound,
// which may be nothing for a bin with room and much for a full one. Gives up as soon as the bins
// filled lack too much, or once `stop` is requested. `steps` are taken off.
std::optional<Bins> MinimumBinSlack(const Kinds& kinds, const DualFeasible& worth, size_t bins,
                                    const SlackSearch& search, uint64_t& steps,
                                    const std::stop_token& stop = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_MINIMUM_BIN_SLACK_H_
