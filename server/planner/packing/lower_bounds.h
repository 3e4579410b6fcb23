// How many bins any packing needs: by volume, by thresholds, by dual feasible functions.
//
// A function f is dual feasible for capacity C if f(x1) + f(x2) + .. <= f(C) whenever
// x1 + x2 + .. <= C. Then no bin takes more than f(C) of the sum of f over all items, so that
// ceil(sum f(x) / f(C)) bounds the number of bins from below. A survey of such functions:
// F. Clautiaux, C. Alves, J. Valerio de Carvalho, "A survey of dual-feasible and superadditive
// functions", Annals of Operations Research 179 (2010).

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LOWER_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LOWER_BOUNDS_H_

#include <cstdint>
#include <limits>
#include <span>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/kinds.h"

namespace batchplan {

// a / b, rounded up, which is below 2^64. Number is uint64_t or absl::uint128.
template <typename Number>
constexpr uint64_t CeilDiv(const Number& a, uint64_t b) {
  return static_cast<uint64_t>(a / b) + (a % b != 0);
}

// The best of the bounds below, by tokens, by sequences and by each limited load, as tight as
// milliseconds allow. The cheapest come first, and the first bound of `enough` or more is returned:
// a caller that knows a packing has no use for better ones. O(n) for lengths of no extraordinary
// range (see CountLengths).
uint64_t LowerBoundBins(const PackItems& items, const BinLimits& limits,
                        uint64_t enough = std::numeric_limits<uint64_t>::max());

// ceil(sum of lengths / capacity). O(n).
uint64_t VolumeBound(std::span<const uint32_t> lengths, uint32_t capacity);

// The bound L2 of S. Martello and P. Toth, "Lower bounds and reduction procedures for the bin
// packing problem" (1990): for each threshold K <= C/2, items above C - K stand alone, items above
// C/2 each need a bin of their own, and items of K .. C/2 need more bins as far as they exceed the
// room beside these. At least the volume bound, at least 2/3 of the optimum. As fast as
// CountLengths.
uint64_t MartelloTothL2(std::span<const uint32_t> lengths, uint32_t capacity);

// The bins that the limit on sequences needs: ceil(sequences / max_sequences). If items have
// several sequences, also the bounds by length, with the numbers of sequences as lengths.
uint64_t CountBound(const PackItems& items, const BinLimits& limits);

// The bins that the sum of a limited load needs, for the load that needs most. O(n).
uint64_t LoadVolumeBound(std::span<const PackLoad> limited);

// The best bound by one limited load, its values taken as lengths: as they are if they are whole
// numbers, else in units of a millionth of the limit, rounded so that the bound holds.
uint64_t LoadBound(std::span<const PackLoad> limited,
                   uint64_t enough = std::numeric_limits<uint64_t>::max());

// The function of C. A. Burdett and E. L. Johnson, "A subadditive approach to solve linear integer
// programs" (1977), for one period d in 1 .. C: flat for the first C mod d of every d, then of
// slope 1. With d = C it is the length itself. Never falls, and f(x) + f(y) <= f(x + y).
class DualFeasible {
 public:
  DualFeasible(uint32_t period, uint32_t capacity)
      : period_(period), flat_(capacity % period), most_((*this)(capacity)) {}

  uint64_t operator()(uint32_t length) const {
    const uint32_t rest = length % period_;
    return uint64_t{length / period_} * (period_ - flat_) + (rest > flat_ ? rest - flat_ : 0);
  }
  uint32_t period() const { return period_; }
  uint32_t flat() const { return flat_; }
  // Its value at the capacity, the greatest.
  uint64_t most() const { return most_; }

 private:
  uint32_t period_;
  uint32_t flat_;
  uint64_t most_;
};

// Of the functions whose period is a fraction of the capacity, the one with the best bound; the
// length itself if none is better. A packing that meets this bound has bins that are full as
// measured by the function.
DualFeasible BestDualFeasible(std::span<const LengthCount> lengths, uint32_t capacity);

// The best bound of these functions, alone and behind the thresholds of S. P. Fekete and J.
// Schepers, "New classes of fast lower bounds for bin packing problems", Mathematical Programming
// 91 (2001). A small instance has all periods and thresholds tried, a large one so few that the
// bound costs little more than counting the lengths. Exact in integers. Ends with the first bound
// of `enough` or more.
//
// `lengths`: longest first, in 1 .. capacity.
uint64_t DualFeasibleBound(std::span<const LengthCount> lengths, uint32_t capacity,
                           uint64_t enough = std::numeric_limits<uint64_t>::max());

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LOWER_BOUNDS_H_
