#include "server/fitting/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace batchplan {
namespace {

constexpr double kLeastPivot = 1e-10;
// Smaller sums become 0.
constexpr double kNothing = 1e-90;
// Gradients below this are rounding errors, for columns and a target of length 1.
constexpr double kLeastGradient = 1e-12;

// The Cholesky factorization of the chosen columns, each scaled to length 1.
struct Factor {
  std::array<size_t, kColumns> chosen{};
  PerColumn length{};
  size_t count = 0;
  std::array<PerColumn, kColumns> lower{};
};

// None if the columns are linearly dependent.
std::optional<Factor> Factorize(const NormalEquations& equations, Columns columns, double ridge) {
  Factor factor;
  auto& [chosen, length, count, lower] = factor;
  for (size_t column = 0; column < kColumns; ++column) {
    if (!HasColumn(columns, column)) continue;
    length[count] = std::sqrt(equations.matrix[column][column]);
    if (!(length[count] > 0)) return std::nullopt;
    chosen[count++] = column;
  }
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double entry =
          i == j ? 1 + ridge : equations.matrix[chosen[i]][chosen[j]] / length[i] / length[j];
      for (size_t k = 0; k < j; ++k) entry -= lower[i][k] * lower[j][k];
      if (i == j) {
        if (!(entry > kLeastPivot)) return std::nullopt;
        lower[i][i] = std::sqrt(entry);
      } else {
        lower[i][j] = entry / lower[j][j];
      }
    }
  }
  return factor;
}

bool AreCoefficients(const PerColumn& solution) {
  return std::ranges::all_of(solution, [](double x) { return x >= 0 && std::isfinite(x); });
}

// How far the squared error is below that of no columns, if `solution` is unrestricted in its
// columns.
double ExplainedBy(const PerColumn& solution, const NormalEquations& equations) {
  return Dot(solution, equations.right);
}

// The candidate that lowers the error most at `solution`; none if no candidate does.
std::optional<size_t> SteepestColumn(const NormalEquations& equations, const PerColumn& solution,
                                     Columns candidates) {
  std::optional<size_t> steepest;
  double most = kLeastGradient * std::sqrt(equations.square);
  for (size_t column = 0; column < kColumns; ++column) {
    const double length = std::sqrt(equations.matrix[column][column]);
    if (!HasColumn(candidates, column) || !(length > 0)) continue;
    const double gradient =
        (equations.right[column] - Dot(equations.matrix[column], solution)) / length;
    if (!(gradient > most)) continue;
    most = gradient;
    steepest = column;
  }
  return steepest;
}

// A solution and the columns that it uses.
struct ActiveSet {
  PerColumn solution{};
  Columns used = 0;
};

// `set` with `column` added; none if the columns are linearly dependent, or if rounding keeps the
// error from falling.
std::optional<ActiveSet> With(const NormalEquations& equations, const ActiveSet& set,
                              size_t column) {
  ActiveSet next = {.solution = set.solution, .used = set.used | 1U << column};
  while (next.used != 0) {
    const std::optional<PerColumn> target = equations.Solve(next.used);
    if (!target) return std::nullopt;
    if (AreCoefficients(*target)) {
      next.solution = *target;
      const bool better =
          ExplainedBy(next.solution, equations) > ExplainedBy(set.solution, equations);
      return better ? std::optional(next) : std::nullopt;
    }
    // Goes towards the target until the first coefficient reaches 0, and drops its column.
    size_t first = kColumns;
    double way = 1;
    for (size_t j = 0; j < kColumns; ++j) {
      if (!HasColumn(next.used, j) || (*target)[j] > 0) continue;
      const double to_zero = next.solution[j] / (next.solution[j] - (*target)[j]);
      if (first < kColumns && !(to_zero < way)) continue;
      way = to_zero;
      first = j;
    }
    if (first == kColumns) return std::nullopt;
    for (size_t j = 0; j < kColumns; ++j) {
      next.solution[j] = std::max(0.0, next.solution[j] + way * ((*target)[j] - next.solution[j]));
    }
    next.solution[first] = 0;
    next.used &= ~(1U << first);
  }
  return std::nullopt;
}

}  // namespace

double Dot(const PerColumn& a, const PerColumn& b) {
  double sum = a[0] * b[0];
  for (size_t i = 1; i < kColumns; ++i) sum += a[i] * b[i];
  return sum;
}

void NormalEquations::Add(const PerColumn& row, double target, double row_weight) {
  size_t columns = kColumns;
  while (columns > 0 && row[columns - 1] == 0) --columns;
  for (size_t i = 0; i < columns; ++i) {
    for (size_t j = 0; j < columns; ++j) matrix[i][j] += row_weight * row[i] * row[j];
    right[i] += row_weight * row[i] * target;
  }
  square += row_weight * target * target;
  weight += row_weight;
}

void NormalEquations::Decay(double factor) {
  const auto decay = [factor](double& entry) {
    entry *= factor;
    // A column that has long been 0 would decay beyond the range of a fit's numbers.
    if (std::abs(entry) < kNothing) entry = 0;
  };
  for (PerColumn& line : matrix) std::ranges::for_each(line, decay);
  std::ranges::for_each(right, decay);
  square *= factor;
  weight *= factor;
}

void NormalEquations::Forget(size_t column) {
  for (size_t other = 0; other < kColumns; ++other)
    matrix[column][other] = matrix[other][column] = 0;
  right[column] = 0;
}

std::optional<PerColumn> NormalEquations::SolveFor(const PerColumn& side, Columns columns,
                                                   double ridge) const {
  const std::optional<Factor> factor = Factorize(*this, columns, ridge);
  if (!factor) return std::nullopt;
  const auto& [chosen, length, count, lower] = *factor;
  PerColumn solution{};
  for (size_t i = 0; i < count; ++i) {
    double rest = side[chosen[i]] / length[i];
    for (size_t k = 0; k < i; ++k) rest -= lower[i][k] * solution[k];
    solution[i] = rest / lower[i][i];
  }
  for (size_t i = count; i-- > 0;) {
    for (size_t k = i + 1; k < count; ++k) solution[i] -= lower[k][i] * solution[k];
    solution[i] /= lower[i][i];
  }
  PerColumn spread{};
  for (size_t i = 0; i < count; ++i) spread[chosen[i]] = solution[i] / length[i];
  return spread;
}

// Sums the squares of each column of the inverse factor.
std::optional<PerColumn> NormalEquations::Variances(Columns columns) const {
  const std::optional<Factor> factor = Factorize(*this, columns, 0);
  if (!factor) return std::nullopt;
  const auto& [chosen, length, count, lower] = *factor;
  PerColumn variances{};
  for (size_t column = 0; column < count; ++column) {
    PerColumn inverse{};
    double squares = 0;
    for (size_t i = column; i < count; ++i) {
      double rest = i == column ? 1 : 0;
      for (size_t k = column; k < i; ++k) rest -= lower[i][k] * inverse[k];
      inverse[i] = rest / lower[i][i];
      squares += inverse[i] * inverse[i];
    }
    variances[chosen[column]] = squares / (length[column] * length[column]);
  }
  return variances;
}

PerColumn SolveNonNegative(const NormalEquations& equations, Columns columns) {
  // If the unrestricted solution has no negative coefficient, it is the best.
  const std::optional<PerColumn> free = equations.Solve(columns);
  if (free && AreCoefficients(*free)) return *free;
  ActiveSet set;
  Columns candidates = columns;
  for (;;) {
    const std::optional<size_t> column =
        SteepestColumn(equations, set.solution, candidates & ~set.used);
    if (!column) return set.solution;
    if (const std::optional<ActiveSet> next = With(equations, set, *column)) {
      set = *next;
      candidates = columns;
    } else {
      candidates &= ~(1U << *column);
    }
  }
}

}  // namespace batchplan
