// Weighted least squares in four unknowns or fewer, as sums that any number of rows goes into; and
// the solution whose coefficients are not negative.
//
//   NormalEquations sums;
//   for (...) sums.Add(row, target, weight);
//   std::optional<Quadruple> solution = sums.Solve(kAllColumns);
//   Quadruple positive = SolveNonNegative(sums, kAllColumns);
//
// The columns may be of very different size: they are brought to length 1 before anything is
// solved, and a column that is a combination of others but for 1e-10 of its square is refused.
// A value; constant time and space.

#ifndef BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_
#define BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_

#include <array>
#include <cstddef>
#include <optional>

namespace batchplan {

// One number for each column.
inline constexpr size_t kColumns = 4;
using Quadruple = std::array<double, kColumns>;

// A set of columns: bit j stands for column j.
using Columns = unsigned;
inline constexpr Columns kAllColumns = 15;

double Dot(const Quadruple& a, const Quadruple& b);

struct NormalEquations {
  // Sums over the rows of weight times row * row', row * target, target^2, and 1.
  std::array<Quadruple, kColumns> matrix{};
  Quadruple right{};
  double square = 0;
  double weight = 0;

  void Add(const Quadruple& row, double target, double row_weight);
  // Forgets: all rows so far count `factor` times what they did.
  void Decay(double factor);
  // As if the column had been 0 in all rows.
  void Forget(size_t column);

  // The solution in `columns`, 0 elsewhere. None if the columns depend on one another.
  std::optional<Quadruple> Solve(Columns columns) const { return SolveFor(right, columns, 0); }

  // The same for another right side, with `ridge` times its own square added to each column's.
  std::optional<Quadruple> SolveFor(const Quadruple& side, Columns columns, double ridge) const;

  friend bool operator==(const NormalEquations&, const NormalEquations&) = default;
};

// The coefficients >= 0 of least squared error, 0 outside of `columns`. Exact: the best solution is
// the free one in the columns that it uses (C. L. Lawson, R. J. Hanson, "Solving least squares
// problems", 1974, chapter 23), so all sets of columns, at most fifteen, are tried. Columns that
// depend on one another are not used together. All 0 if no set will do. Constant time.
Quadruple SolveNonNegative(const NormalEquations& equations, Columns columns);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_LEAST_SQUARES_H_
