// Bins by linear programming: nearly always as few as there can be, and a bound that says so.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_COLUMN_GENERATION_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_COLUMN_GENERATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "server/planner/fewest_bins/kinds.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

struct GeneratedBins {
  // As few bins as were asked for, if that was found.
  std::optional<Bins> bins;
  // No packing has fewer. Proven in integers: prices u of the kinds, rounded down, and a knapsack
  // solved exactly that shows that no bin holds items worth more than z, give
  // ceil(sum of u over all items / z) (A. A. Farley, "A note on bounding a class of linear
  // programming problems, including cutting stock problems", 1990).
  uint64_t bound = 0;
};

// Looks for a packing into at most max(enough, bound) bins, or else a few more, but fewer than
// `fewer_than`. Solves the linear program over all patterns of one bin by generating them with a
// knapsack over the prices, smoothed (P. Wentges, "Weighted Dantzig-Wolfe decomposition for linear
// mixed-integer programming", 1997), until it is worth `enough` bins or solved; then dives: takes
// the patterns with the largest fractions for bins, solves what is left anew, and so on, and leaves
// the rest to bin completion. Where that fails it dives again, each time with one other choice
// (W. D. Harvey, M. L. Ginsberg, "Limited discrepancy search", 1995). Ends within about `steps`,
// which are taken off: some 1.5 million a millisecond. Once `stop` is requested it ends soon, with
// what it has by then.
GeneratedBins GenerateColumns(const Kinds& kinds, uint64_t enough, uint64_t fewer_than,
                              uint64_t& steps, const std::stop_token& stop = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_COLUMN_GENERATION_H_
