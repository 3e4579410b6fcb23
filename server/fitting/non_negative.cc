#include "server/fitting/non_negative.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace batchplan {

Triple SolveNonNegative(const NormalEquations& equations, Columns columns) {
  Triple best{};
  // How much smaller the squared error is than without any column.
  double best_explained = 0;
  for (Columns tried = kAllColumns; tried > 0; --tried) {
    if ((tried & ~columns) != 0) continue;
    const std::optional<Triple> solution = equations.Solve(tried);
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
