// Means of ratios over batches, for tables of step times.

#ifndef BATCHPLAN_TESTS_BENCH_GEOMETRIC_MEAN_H_
#define BATCHPLAN_TESTS_BENCH_GEOMETRIC_MEAN_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

namespace batchplan::bench {

// The mean over the batches for which all methods had a plan.
class GeometricMean {
 public:
  // None: the batch could not be planned.
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
  // The least value so far.
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  double sum_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = 0;
  int count_ = 0;
  int missing_ = 0;
};

// Prints the mean as a cell of a table.
inline void PrintMean(const GeometricMean& mean, int digits = 3) {
  if (mean.IsWhole()) {
    std::printf(" %.*f |", digits, mean.value());
  } else {
    std::printf(" - |");
  }
}

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_GEOMETRIC_MEAN_H_
