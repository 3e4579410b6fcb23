// Lower bounds by dual feasible functions.
//
// A function f is dual feasible for capacity C if f(x1) + f(x2) + .. <= f(C) whenever
// x1 + x2 + .. <= C. Then no bin takes more than f(C) of the sum of f over all items, so that
// ceil(sum f(x) / f(C)) bounds the number of bins from below. A survey of such functions:
// F. Clautiaux, C. Alves, J. Valerio de Carvalho, "A survey of dual-feasible and superadditive
// functions", Annals of Operations Research 179 (2010).

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_DUAL_FEASIBLE_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_DUAL_FEASIBLE_H_

#include <cstdint>
#include <limits>
#include <span>

#include "server/planner/packing/length_counts.h"

namespace batchplan {

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
  // Of the capacity.
  uint64_t most() const { return most_; }

 private:
  uint32_t period_;
  uint32_t flat_;
  uint64_t most_;
};

// Of the lengths themselves and the functions whose period is a fraction of the capacity the one
// that gives the best bound; the lengths if none is better. Bins that are filled best by its
// measure are those that a packing of that many bins consists of.
DualFeasible BestDualFeasible(std::span<const LengthCount> lengths, uint32_t capacity);

// The best bound of these functions, alone and behind the thresholds of S. P. Fekete and
// J. Schepers, "New classes of fast lower bounds for bin packing problems", Mathematical
// Programming 91 (2001). Periods and thresholds are sampled: all of a small instance,
// and of a large one so few that the bound costs little more than counting the lengths. Exact in
// integers. Ends with the first bound of `enough` or more, for callers to whom better ones are of
// no use.
//
// `lengths`: longest first, in 1 .. capacity.
uint64_t DualFeasibleBound(std::span<const LengthCount> lengths, uint32_t capacity,
                           uint64_t enough = std::numeric_limits<uint64_t>::max());

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_DUAL_FEASIBLE_H_
