// What context-parallel ranks exchange, told from sums over timings of groups of several sizes.
//
// Each of c ranks takes, beside its part of the computation, exchange * tokens * (c - 1) / c
// (CostModel.exchange). In the sums of one size that is c - 1 times the column of tokens over c, so
// that a single size can't tell it from computation. Where groups of one rank were timed, every
// other size has an exchange of its own. Where they were not, the two smallest sizes share one:
// computation is told from it by how much less time the larger one takes.
//
// Pure functions of values.

#ifndef BATCHPLAN_SERVER_FITTING_EXCHANGE_FIT_H_
#define BATCHPLAN_SERVER_FITTING_EXCHANGE_FIT_H_

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "server/fitting/least_squares.h"

namespace batchplan {

// Of more sizes those with the least weight are forgotten.
inline constexpr size_t kMaxContextSizes = 8;

// The rows of groups of so many ranks; column 0 is tokens over ranks.
struct SizeSums {
  double ranks = 1;
  NormalEquations sums;

  friend bool operator==(const SizeSums&, const SizeSums&) = default;
};

// Ascending by ranks.
using SumsBySize = std::vector<SizeSums>;

// The sums of that size, which it adds where there are none. Where they are too many, those of
// least weight are erased before.
NormalEquations& SumsOf(double ranks, SumsBySize& sizes);

// What a token costs the ranks of groups of this size, as CostModel.exchange has it.
struct SizeExchange {
  double ranks = 1;
  double per_token = 0;

  friend bool operator==(const SizeExchange&, const SizeExchange&) = default;
};

struct SharedFit {
  PerColumn coefficients{};
  // Ascending, of each size above 1; empty where nothing is exchanged.
  std::vector<SizeExchange> exchange;
};

// The coefficients that `solve` finds in sums of all sizes, and the exchange of least squared error
// beside them. It is eliminated from the sums before (R. Frisch, F. V. Waugh, "Partial time
// regressions as compared with individual trends", Econometrica 1, 1933). An exchange stays that is
// above 0 by `certainty` standard errors, the standard deviation of a target of weight 1 being
// `scale`; the least certain one falls away, one after the other, until all are. O(sizes^2) and as
// many calls of `solve` as sizes.
SharedFit FitShared(std::span<const SizeSums> sizes,
                    const std::function<PerColumn(const NormalEquations&)>& solve, double scale,
                    double certainty);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_EXCHANGE_FIT_H_
