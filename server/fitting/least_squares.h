// Weighted least squares in up to twelve unknowns, as sums over any number of rows; and the
// solution with non-negative coefficients.
//
//   NormalEquations sums;
//   for (...) sums.Add(row, target, weight);
//   std::optional<PerColumn> solution = sums.Solve(kAllColumns);
//   PerColumn positive = SolveNonNegative(sums, kAllColumns);
//
// The columns may differ much in size: they are scaled to length 1 first, and a column that is a
// combination of others to within 1e-10 of its square is refused. A value; constant time and space.

#ifndef BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_
#define BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_

#include <array>
#include <cstddef>
#include <optional>

namespace batchplan {

// One number for each column.
inline constexpr size_t kColumns = 12;
using PerColumn = std::array<double, kColumns>;

// A set of columns: bit j stands for column j.
using Columns = unsigned;
inline constexpr Columns kAllColumns = (1U << kColumns) - 1;

inline bool HasColumn(Columns columns, size_t column) { return (columns >> column & 1U) != 0; }

double Dot(const PerColumn& a, const PerColumn& b);

struct NormalEquations {
  // Sums over the rows of weight times row * row', row * target, target^2, and 1.
  std::array<PerColumn, kColumns> matrix{};
  PerColumn right{};
  double square = 0;
  double weight = 0;

  void Add(const PerColumn& row, double target, double row_weight);
  // Forgets: all rows so far count `factor` times what they did.
  void Decay(double factor);
  // Makes the sums as if the column had been 0 in all rows.
  void Forget(size_t column);

  // The solution in `columns`, 0 elsewhere. None if the columns depend on one another.
  std::optional<PerColumn> Solve(Columns columns) const { return SolveFor(right, columns, 0); }

  // Solve() for another right side, with `ridge` times its own square added to each column's
  // square.
  std::optional<PerColumn> SolveFor(const PerColumn& side, Columns columns, double ridge) const;

  // The diagonal of the inverse of the matrix in `columns`, 0 elsewhere: the variance of each
  // coefficient if targets have variance 1. None if the columns depend on one another.
  std::optional<PerColumn> Variances(Columns columns) const;

  friend bool operator==(const NormalEquations&, const NormalEquations&) = default;
};

// The coefficients >= 0 of least squared error, 0 outside of `columns`, by active sets (C. L.
// Lawson, R. J. Hanson, "Solving least squares problems", 1974, chapter 23): the column that would
// lower the error most enters, and columns that then fall below 0 leave. Columns that depend on one
// another are not used together. Constant time: mostly one solution, hardly ever more than two a
// column.
PerColumn SolveNonNegative(const NormalEquations& equations, Columns columns);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_
