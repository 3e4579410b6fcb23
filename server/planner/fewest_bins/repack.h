// Fewer bins for a packing that is too large to improve as a whole.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_REPACK_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_REPACK_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <stop_token>

#include "server/planner/fewest_bins/kinds.h"
#include "server/planner/packing/bins.h"
#include "server/planner/packing/dual_feasible.h"

namespace batchplan {

// Takes bins of at most `items` items out, packs these anew by column generation, and again, until
// there are at most `enough` bins, too many rounds in a row or all `steps` were to no avail, or
// `stop` is requested. The bins taken are in the first round those that lack most by `worth`
// (minimum_bin_slack.h), later half of them drawn at random: large neighbourhood search, P. Shaw,
// "Using constraint programming and local search methods to solve vehicle routing problems" (1998).
Bins RepackSome(const Kinds& kinds, const DualFeasible& worth, Bins bins, size_t enough,
                size_t items, std::mt19937_64& random, uint64_t& steps,
                const std::stop_token& stop);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_REPACK_H_
