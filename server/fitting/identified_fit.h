// Of the terms of a cost model, those that the data can tell apart.

#ifndef BATCHPLAN_SERVER_FITTING_IDENTIFIED_FIT_H_
#define BATCHPLAN_SERVER_FITTING_IDENTIFIED_FIT_H_

#include "server/fitting/normal_equations.h"

namespace batchplan {

// The columns of a cost model, in the order of its coefficients.
inline constexpr Columns kPerToken = 1;
inline constexpr Columns kPerTokenSquared = 2;
inline constexpr Columns kPerMicrobatch = 4;

// The non-negative coefficients of least squared error. A set of columns is identified if the
// standard error of each one's share of the time is below a tenth of the time; `scale` is the
// standard deviation of a target of weight 1, targets being times relative to what they should be.
// With all three columns identified all are used. Otherwise a pair is: of the identified ones the
// first of tokens and squares, tokens and micro-batch, squares and micro-batch, unless a later one
// fits better by more than chance (4 of its squared errors' variances). Otherwise tokens alone.
//
// So sequences all of one length, whose squares tell no more than their tokens, cost by the token,
// and so do micro-batches that are all alike; where all micro-batches are equally full, nothing is
// put down to the micro-batch. Constant time.
Triple IdentifiedFit(const NormalEquations& equations, double scale);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_IDENTIFIED_FIT_H_
