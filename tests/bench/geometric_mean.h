// Means of ratios over batches, as tables of step times have them.

#ifndef BATCHPLAN_TESTS_BENCH_GEOMETRIC_MEAN_H_
#define BATCHPLAN_TESTS_BENCH_GEOMETRIC_MEAN_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

namespace batchplan::bench {

// Over the batches of what all of them could be planned by.
class GeometricMean {
 public:
  // Nothing: the batch could not be planned.
  void Add(std::optional<double> value) {
    ++count_;
    if (!value) {
      ++missing_;
      return;
    }
    sum_ += std::log(*value);
    least_ = std::min(least_, *value);
    most_ = std::max(most_, *value);
  }

  bool IsWhole() const { return missing_ == 0 && count_ > 0; }
  double value() const { return std::exp(sum_ / count_); }
  // Of the values that there are.
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  double sum_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = 0;
  int count_ = 0;
  int missing_ = 0;
};

// As the cell of a table.
inline void PrintMean(const GeometricMean& mean, int digits = 3) {
  if (mean.IsWhole()) {
    std::printf(" %.*f |", digits, mean.value());
  } else {
    std::printf(" - |");
  }
}

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_GEOMETRIC_MEAN_H_
