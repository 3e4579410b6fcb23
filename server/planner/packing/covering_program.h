// The linear program behind bin packing: as few bins as can be, in fractions of patterns, that
// cover the demand for every kind.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_COVERING_PROGRAM_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_COVERING_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace batchplan {

// Minimises the sum of x over the patterns such that over all of them the sum of times[kind] * x is
// at least demand[kind], by the revised simplex method with an explicit inverse of the basis: a
// pivot takes O(kinds^2), less where the inverse is sparse. Patterns may be added and the demand
// lowered between calls; each Solve starts from the basis of the last (P. C. Gilmore, R. E. Gomory,
// "A linear programming approach to the cutting-stock problem", 1961).
//
// In double precision, of which only operations that IEEE 754 fixes to the last bit are used.
// Nothing proven rests on them: they only suggest patterns and prices.
class CoveringProgram {
 public:
  using Pattern = std::vector<std::pair<uint32_t, uint32_t>>;  // (kind, times)

  // Starts with the patterns of one kind, most[kind] of it.
  CoveringProgram(std::span<const uint32_t> demand, std::span<const uint32_t> most);

  void Add(Pattern pattern) { patterns_.push_back(std::move(pattern)); }
  void SetDemand(std::span<const uint32_t> demand);

  // Goes towards the optimum over the patterns added so far, by at most `pivots` pivots once all
  // demand is met, or until `steps`, from which it deducts its work, run out or `stop` is
  // requested. True if the optimum is reached.
  bool Solve(size_t pivots, uint64_t& steps, const std::stop_token& stop);

  // Whether the basis has become singular by rounding: there is then no solution, nor will there be
  // one.
  bool is_singular() const { return is_singular_; }
  size_t size() const { return patterns_.size(); }
  const Pattern& pattern(size_t index) const { return patterns_[index]; }
  // What one more item of each kind would cost, in bins.
  std::span<const double> prices() const { return prices_; }
  double Value() const;
  // The patterns with an amount above 0, and that amount, in the order of their index.
  std::vector<std::pair<size_t, double>> Solution() const;

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // A column: a pattern below size(), or size_t(-2 - kind): one item of the kind too many.
  static size_t Surplus(uint32_t kind) { return kNone - 1 - kind; }
  bool IsPattern(size_t column) const { return column < patterns_.size(); }
  double Cost(size_t column) const { return IsPattern(column) ? 1 : 0; }
  double ReducedCost(size_t column) const;
  // The product of the row or the inverse with a column.
  double InRow(size_t row, size_t column) const;
  void Transform(size_t column, std::vector<double>& product) const;

  // All columns outside the basis, patterns first.
  template <typename Visit>
  void ForEachOutside(Visit visit) const;

  bool PrimalStep();
  bool DualStep();
  void Pivot(size_t row, size_t column, std::span<const double> product);
  // Computes the inverse, amounts and prices from the basis alone, unless that is singular.
  void Refresh();
  void ComputeAmounts();
  void Mark(size_t column, uint8_t in_basis);

  double& inverse(size_t row, size_t column) { return inverse_[column * rows_ + row]; }
  double inverse(size_t row, size_t column) const { return inverse_[column * rows_ + row]; }

  size_t rows_;
  std::vector<double> demand_;
  std::vector<Pattern> patterns_;
  std::vector<size_t> basis_;        // The column of each row.
  std::vector<uint8_t> surplus_in_;  // Whether a kind's surplus is in the basis.
  std::vector<uint8_t> pattern_in_;
  std::vector<double> inverse_;  // Column by column.
  std::vector<double> amounts_;  // Of the column of each row.
  std::vector<double> prices_;
  std::vector<double> product_;  // Scratch.
  size_t pivots_ = 0;            // Since the last Refresh.
  bool is_singular_ = false;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_COVERING_PROGRAM_H_
