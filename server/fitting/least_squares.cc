#include "server/fitting/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace batchplan {
namespace {

constexpr double kLeastPivot = 1e-10;

}  // namespace

double Dot(const Quadruple& a, const Quadruple& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

void NormalEquations::Add(const Quadruple& row, double target, double row_weight) {
  for (size_t i = 0; i < kColumns; ++i) {
    for (size_t j = 0; j < kColumns; ++j) matrix[i][j] += row_weight * row[i] * row[j];
    right[i] += row_weight * row[i] * target;
  }
  square += row_weight * target * target;
  weight += row_weight;
}

void NormalEquations::Decay(double factor) {
  for (Quadruple& line : matrix) {
    for (double& entry : line) entry *= factor;
  }
  for (double& entry : right) entry *= factor;
  square *= factor;
  weight *= factor;
}

void NormalEquations::Forget(size_t column) {
  for (size_t other = 0; other < kColumns; ++other)
    matrix[column][other] = matrix[other][column] = 0;
  right[column] = 0;
}

// Cholesky's factorisation of the chosen columns, each scaled to length 1.
std::optional<Quadruple> NormalEquations::SolveFor(const Quadruple& side, Columns columns,
                                                   double ridge) const {
  std::array<size_t, kColumns> chosen{};
  Quadruple length{};
  size_t count = 0;
  for (size_t column = 0; column < kColumns; ++column) {
    if ((columns >> column & 1U) == 0) continue;
    length[count] = std::sqrt(matrix[column][column]);
    if (!(length[count] > 0)) return std::nullopt;
    chosen[count++] = column;
  }
  std::array<Quadruple, kColumns> lower{};
  Quadruple solution{};
  for (size_t i = 0; i < count; ++i) {
    double rest = side[chosen[i]] / length[i];
    for (size_t j = 0; j <= i; ++j) {
      double entry = i == j ? 1 + ridge : matrix[chosen[i]][chosen[j]] / length[i] / length[j];
      for (size_t k = 0; k < j; ++k) entry -= lower[i][k] * lower[j][k];
      if (i == j) {
        if (!(entry > kLeastPivot)) return std::nullopt;
        lower[i][i] = std::sqrt(entry);
      } else {
        lower[i][j] = entry / lower[j][j];
        rest -= lower[i][j] * solution[j];
      }
    }
    solution[i] = rest / lower[i][i];
  }
  for (size_t i = count; i-- > 0;) {
    for (size_t k = i + 1; k < count; ++k) solution[i] -= lower[k][i] * solution[k];
    solution[i] /= lower[i][i];
  }
  Quadruple spread{};
  for (size_t i = 0; i < count; ++i) spread[chosen[i]] = solution[i] / length[i];
  return spread;
}

Quadruple SolveNonNegative(const NormalEquations& equations, Columns columns) {
  Quadruple best{};
  // How much smaller the squared error is than without any column.
  double best_explained = 0;
  for (Columns tried = kAllColumns; tried > 0; --tried) {
    if ((tried & ~columns) != 0) continue;
    const std::optional<Quadruple> solution = equations.Solve(tried);
    if (!solution) continue;
    if (!std::ranges::all_of(*solution, [](double x) { return x >= 0 && std::isfinite(x); })) {
      continue;
    }
    const double explained = Dot(*solution, equations.right);
    if (explained > best_explained) {
      best = *solution;
      best_explained = explained;
    }
    // No restriction holds it back: nothing is better.
    if (tried == columns) break;
  }
  return best;
}

}  // namespace batchplan
