#include "server/fitting/identified_fit.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

#include "server/fitting/non_negative.h"

namespace batchplan {
namespace {

constexpr double kMaxStandardError = 0.1;
constexpr double kChance = 4;

bool Identified(const NormalEquations& equations, double scale, Columns columns) {
  for (size_t column = 0; column < 3; ++column) {
    if ((columns >> column & 1U) == 0) continue;
    Triple unit{};
    unit[column] = 1;
    // The column's own variance, in units of scale^2, is the inverse's diagonal.
    const std::optional<Triple> inverse = equations.SolveFor(unit, columns, 0);
    if (!inverse) return false;
    const double variance = (*inverse)[column];
    const double mean_square = equations.matrix[column][column] / equations.weight;
    if (!(scale * std::sqrt(variance * mean_square) < kMaxStandardError)) return false;
  }
  return true;
}

}  // namespace

Triple IdentifiedFit(const NormalEquations& equations, double scale) {
  if (!(equations.weight > 0)) return {};
  if (Identified(equations, scale, kAllColumns)) return SolveNonNegative(equations, kAllColumns);
  std::optional<Triple> best;
  double best_explained = 0;
  for (const Columns pair : {kPerToken | kPerTokenSquared, kPerToken | kPerMicrobatch,
                             kPerTokenSquared | kPerMicrobatch}) {
    if (!Identified(equations, scale, pair)) continue;
    const Triple solution = SolveNonNegative(equations, pair);
    const double explained = Dot(solution, equations.right);
    if (!best || explained > best_explained + kChance * scale * scale) {
      best = solution;
      best_explained = explained;
    }
  }
  return best ? *best : SolveNonNegative(equations, kPerToken);
}

}  // namespace batchplan
