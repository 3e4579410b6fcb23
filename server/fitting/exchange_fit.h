// The exchange of context-parallel ranks, fitted from sums over timings of groups of several sizes.
//
// Each of c ranks spends, beside its part of the computation, exchange * tokens * (c - 1) / c
// (CostModel.exchange). In the sums of one size that is c - 1 times the column of tokens over c, so
// a single size can't tell it from computation. If groups of one rank were timed, every other size
// has an exchange of its own. If not, the two smallest sizes share one, and the difference of their
// times tells it from computation.
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

// With more sizes, those of least weight are forgotten.
inline constexpr size_t kMaxContextSizes = 8;

// The sums of groups of this many ranks; column 0 is tokens over ranks.
struct SizeSums {
  double ranks = 1;
  NormalEquations sums;

  friend bool operator==(const SizeSums&, const SizeSums&) = default;
};

// Ascending by ranks.
using SumsBySize = std::vector<SizeSums>;

// The sums of that size, added if there are none. If there are too many sizes, the one of least
// weight is erased first.
NormalEquations& SumsOf(double ranks, SumsBySize& sizes);

// The exchange of a token in groups of this size, as in CostModel.exchange.
struct SizeExchange {
  double ranks = 1;
  double per_token = 0;

  friend bool operator==(const SizeExchange&, const SizeExchange&) = default;
};

struct SharedFit {
  PerColumn coefficients{};
  // By size above 1, ascending; empty if nothing is exchanged.
  std::vector<SizeExchange> exchange;
};

// The coefficients that `solve` finds in the sums of all sizes, and the exchange of least squared
// error beside them, which is eliminated from the sums first (R. Frisch, F. V. Waugh, "Partial time
// regressions as compared with individual trends", Econometrica 1, 1933). An exchange is certain if
// it is above 0 by `certainty` standard errors, where `scale` is the standard deviation of a target
// of weight 1. The least certain one is dropped, one after the other, until all are certain.
// O(sizes^2) and as many calls of `solve` as sizes.
SharedFit FitShared(std::span<const SizeSums> sizes,
                    const std::function<PerColumn(const NormalEquations&)>& solve, double scale,
                    double certainty);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_EXCHANGE_FIT_H_
