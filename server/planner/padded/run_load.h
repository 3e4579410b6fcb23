// A limited load along the sorted order.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_RUN_LOAD_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_RUN_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// How much of a load each run has; no run may have more than `most`.
class RunLoad {
 public:
  // `values` are those of the items in their order, at least 0. `most` includes slack for the
  // rounding of sums; each value is below it by at least that slack.
  RunLoad(std::span<const double> values, double most) : most_(most) {
    sums_.reserve(values.size() + 1);
    sums_.push_back({});
    for (const double value : values) sums_.push_back(Plus(sums_.back(), value));
  }

  double most() const { return most_; }
  // Of the items [begin, end).
  double Of(size_t begin, size_t end) const {
    return (sums_[end].sum - sums_[begin].sum) + (sums_[end].rest - sums_[begin].rest);
  }
  bool Allows(size_t begin, size_t end) const { return Of(begin, end) <= most_; }

 private:
  // The sum of the items before a position, and what rounding took from it. So the difference of
  // two sums of many items is as exact as a sum of few.
  struct Sum {
    double sum = 0;
    double rest = 0;
  };

  // D. E. Knuth, "The Art of Computer Programming" 2, 4.2.2.
  static Sum Plus(const Sum& before, double value) {
    const double sum = before.sum + value;
    const double added = sum - before.sum;
    const double lost = (before.sum - (sum - added)) + (value - added);
    return {.sum = sum, .rest = before.rest + lost};
  }

  double most_;
  std::vector<Sum> sums_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_RUN_LOAD_H_
