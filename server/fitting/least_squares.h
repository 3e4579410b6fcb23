// Weighted least squares in three unknowns, as sums that any number of rows goes into; and the
// solution whose coefficients are not negative.
//
//   NormalEquations sums;
//   for (...) sums.Add(row, target, weight);
//   std::optional<Triple> solution = sums.Solve(kAllColumns);
//   Triple positive = SolveNonNegative(sums, kAllColumns);
//
// The columns may be of very different size: they are brought to length 1 before anything is
// solved, and a column that is a combination of others but for 1e-10 of its square is refused.
// A value; constant time and space.

#ifndef BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_
#define BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_

#include <array>
#include <optional>

namespace batchplan {

// One number for each column.
using Triple = std::array<double, 3>;

// A set of columns: bit j stands for column j.
using Columns = unsigned;
inline constexpr Columns kAllColumns = 7;

double Dot(const Triple& a, const Triple& b);

struct NormalEquations {
  // Sums over the rows of weight times row * row', row * target, target^2, and 1.
  std::array<Triple, 3> matrix{};
  Triple right{};
  double square = 0;
  double weight = 0;

  void Add(const Triple& row, double target, double row_weight);
  // Forgets: all rows so far count `factor` times what they did.
  void Decay(double factor);

  // The solution in `columns`, 0 elsewhere. None if the columns depend on one another.
  std::optional<Triple> Solve(Columns columns) const { return SolveFor(right, columns, 0); }

  // The same for another right side, with `ridge` times its own square added to each column's.
  std::optional<Triple> SolveFor(const Triple& side, Columns columns, double ridge) const;

  friend bool operator==(const NormalEquations&, const NormalEquations&) = default;
};

// The coefficients >= 0 of least squared error, 0 outside of `columns`. Exact: the best solution is
// the free one in the columns that it uses (C. L. Lawson, R. J. Hanson, "Solving least squares
// problems", 1974, chapter 23), so all sets of columns, at most seven, are tried. Columns that
// depend on one another are not used together. All 0 if no set will do. Constant time.
Triple SolveNonNegative(const NormalEquations& equations, Columns columns);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_
