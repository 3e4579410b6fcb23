// Least squares with coefficients that are not negative.

#ifndef BATCHPLAN_SERVER_FITTING_NON_NEGATIVE_H_
#define BATCHPLAN_SERVER_FITTING_NON_NEGATIVE_H_

#include "server/fitting/normal_equations.h"

namespace batchplan {

// The coefficients >= 0 of least squared error, 0 outside of `columns`. Exact: the best solution is
// the free one in the columns that it uses (C. L. Lawson, R. J. Hanson, "Solving least squares
// problems", 1974, chapter 23), so all sets of columns, at most seven, are tried. Columns that
// depend on one another are not used together. All 0 if no set will do. Constant time.
Triple SolveNonNegative(const NormalEquations& equations, Columns columns);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_NON_NEGATIVE_H_
