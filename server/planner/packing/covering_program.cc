#include "server/planner/packing/covering_program.h"

#include <algorithm>
#include <cmath>

namespace batchplan {
namespace {

// What counts as zero, since it may come from rounding: for reduced costs and amounts; and for
// pivots.
constexpr double kTiny = 1e-9;
constexpr double kTinyPivot = 1e-7;

// The most pivots of the dual simplex method for each row. With more it is cycling.
constexpr size_t kMaxDualPivots = 4;

}  // namespace

CoveringProgram::CoveringProgram(std::span<const uint32_t> demand, std::span<const uint32_t> most)
    : rows_(demand.size()),
      demand_(demand.begin(), demand.end()),
      surplus_in_(rows_, 0),
      product_(rows_) {
  for (uint32_t kind = 0; kind < rows_; ++kind) {
    basis_.push_back(patterns_.size());
    patterns_.push_back({{kind, most[kind]}});
  }
  Refresh();
}

void CoveringProgram::SetDemand(std::span<const uint32_t> demand) {
  std::copy(demand.begin(), demand.end(), demand_.begin());
  ComputeAmounts();
}

bool CoveringProgram::Solve(size_t pivots, uint64_t& steps, const std::stop_token& stop) {
  if (is_singular_) return false;
  pattern_in_.resize(patterns_.size(), 0);
  const uint64_t each = rows_ * rows_ + 4 * patterns_.size();
  // After the demand was lowered amounts may be negative while all prices are still right: the dual
  // method. After patterns were added it is the reverse: the primal method.
  const auto may_step = [&] { return steps > each && !is_singular_ && !stop.stop_requested(); };
  for (size_t pivot = 0; pivot < kMaxDualPivots * rows_ && may_step() && DualStep(); ++pivot) {
    steps -= each;
  }
  for (size_t pivot = 0; pivot < pivots; ++pivot) {
    steps -= std::min(steps, each);
    if (steps == 0 || is_singular_ || stop.stop_requested()) return false;
    if (!PrimalStep()) return true;
  }
  return false;
}

double CoveringProgram::Value() const {
  double value = 0;
  for (size_t row = 0; row < rows_; ++row) value += Cost(basis_[row]) * amounts_[row];
  return value;
}

std::vector<std::pair<size_t, double>> CoveringProgram::Solution() const {
  std::vector<std::pair<size_t, double>> solution;
  for (size_t row = 0; row < rows_; ++row) {
    if (IsPattern(basis_[row]) && amounts_[row] > kTiny) {
      solution.emplace_back(basis_[row], amounts_[row]);
    }
  }
  std::sort(solution.begin(), solution.end());
  return solution;
}

double CoveringProgram::ReducedCost(size_t column) const {
  if (!IsPattern(column)) return prices_[kNone - 1 - column];
  double cost = 1;
  for (const auto& [kind, times] : patterns_[column]) cost -= prices_[kind] * times;
  return cost;
}

double CoveringProgram::InRow(size_t row, size_t column) const {
  if (!IsPattern(column)) return -inverse(row, kNone - 1 - column);
  double sum = 0;
  for (const auto& [kind, times] : patterns_[column]) sum += inverse(row, kind) * times;
  return sum;
}

void CoveringProgram::Transform(size_t column, std::vector<double>& product) const {
  const auto add = [&](size_t kind, double times) {
    const double* const from = &inverse_[kind * rows_];
    for (size_t row = 0; row < rows_; ++row) product[row] += times * from[row];
  };
  std::fill(product.begin(), product.end(), 0);
  if (!IsPattern(column)) return add(kNone - 1 - column, -1);
  for (const auto& [kind, times] : patterns_[column]) add(kind, times);
}

template <typename Visit>
void CoveringProgram::ForEachOutside(Visit visit) const {
  for (size_t column = 0; column < patterns_.size(); ++column) {
    if (!pattern_in_[column]) visit(column);
  }
  for (uint32_t kind = 0; kind < rows_; ++kind) {
    if (!surplus_in_[kind]) visit(Surplus(kind));
  }
}

bool CoveringProgram::PrimalStep() {
  size_t entering = kNone;
  double least = -kTiny;
  ForEachOutside([&](size_t column) {
    const double cost = ReducedCost(column);
    if (cost >= least) return;
    least = cost;
    entering = column;
  });
  if (entering == kNone) return false;
  Transform(entering, product_);
  size_t leaving = kNone;
  for (size_t row = 0; row < rows_; ++row) {
    if (product_[row] <= kTinyPivot) continue;
    if (leaving != kNone) {
      const double difference =
          amounts_[row] * product_[leaving] - amounts_[leaving] * product_[row];
      // Of equals the larger pivot, for precision.
      if (difference > kTiny || (difference > -kTiny && product_[row] <= product_[leaving]))
        continue;
    }
    leaving = row;
  }
  if (leaving == kNone) return false;
  Pivot(leaving, entering, product_);
  return true;
}

bool CoveringProgram::DualStep() {
  const size_t leaving = std::min_element(amounts_.begin(), amounts_.end()) - amounts_.begin();
  if (amounts_.empty() || amounts_[leaving] >= -kTiny) return false;
  size_t entering = kNone;
  double best_ratio = 0;
  double best_pivot = 0;
  ForEachOutside([&](size_t column) {
    const double pivot = -InRow(leaving, column);
    if (pivot <= kTinyPivot) return;
    const double ratio = std::max(0.0, ReducedCost(column)) / pivot;
    // Of equals the larger pivot, which cycles less often than the first.
    if (entering != kNone && ratio >= best_ratio - kTiny &&
        (ratio > best_ratio + kTiny || pivot <= best_pivot)) {
      return;
    }
    best_ratio = ratio;
    best_pivot = pivot;
    entering = column;
  });
  if (entering == kNone) return false;
  Transform(entering, product_);
  Pivot(leaving, entering, product_);
  return true;
}

void CoveringProgram::Pivot(size_t row, size_t column, std::span<const double> product) {
  const double reduced_cost = ReducedCost(column);
  const double amount = amounts_[row] / product[row];
  for (size_t kind = 0; kind < rows_; ++kind) {
    double* const to = &inverse_[kind * rows_];
    if (to[row] == 0) continue;
    const double share = to[row] / product[row];
    for (size_t i = 0; i < rows_; ++i) to[i] -= share * product[i];
    to[row] = share;
    prices_[kind] += reduced_cost * share;
  }
  for (size_t i = 0; i < rows_; ++i) amounts_[i] -= amount * product[i];
  amounts_[row] = amount;
  Mark(basis_[row], 0);
  Mark(column, 1);
  basis_[row] = column;
  if (++pivots_ > rows_ + 100) Refresh();
}

void CoveringProgram::Refresh() {
  // Gauss-Jordan elimination: starting from the unit matrix, each column of the basis in turn gets
  // the row where its pivot is largest.
  const std::vector<size_t> columns = basis_;
  inverse_.assign(rows_ * rows_, 0);
  for (size_t row = 0; row < rows_; ++row) inverse(row, row) = 1;
  std::vector<uint8_t> taken(rows_, 0);
  for (size_t column : columns) {
    Transform(column, product_);
    size_t pivot = kNone;
    for (size_t row = 0; row < rows_; ++row) {
      if (taken[row]) continue;
      if (pivot == kNone || std::abs(product_[row]) > std::abs(product_[pivot])) pivot = row;
    }
    if (!(std::abs(product_[pivot]) > kTinyPivot)) {
      is_singular_ = true;
      amounts_.assign(rows_, 0);
      prices_.assign(rows_, 0);
      return;
    }
    for (size_t kind = 0; kind < rows_; ++kind) {
      double* const to = &inverse_[kind * rows_];
      if (to[pivot] == 0) continue;
      const double share = to[pivot] / product_[pivot];
      for (size_t i = 0; i < rows_; ++i) to[i] -= share * product_[i];
      to[pivot] = share;
    }
    taken[pivot] = 1;
    basis_[pivot] = column;
  }
  pattern_in_.assign(patterns_.size(), 0);
  std::fill(surplus_in_.begin(), surplus_in_.end(), 0);
  for (size_t column : basis_) Mark(column, 1);
  prices_.assign(rows_, 0);
  for (size_t kind = 0; kind < rows_; ++kind) {
    for (size_t row = 0; row < rows_; ++row) {
      prices_[kind] += Cost(basis_[row]) * inverse(row, kind);
    }
  }
  ComputeAmounts();
  pivots_ = 0;
}

void CoveringProgram::ComputeAmounts() {
  amounts_.assign(rows_, 0);
  for (size_t kind = 0; kind < rows_; ++kind) {
    if (demand_[kind] == 0) continue;
    for (size_t row = 0; row < rows_; ++row) amounts_[row] += inverse(row, kind) * demand_[kind];
  }
}

void CoveringProgram::Mark(size_t column, uint8_t in_basis) {
  (IsPattern(column) ? pattern_in_[column] : surplus_in_[kNone - 1 - column]) = in_basis;
}

}  // namespace batchplan
