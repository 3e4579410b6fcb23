// Values of which one at a time changes, their sum, and the largest: a tournament.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_SUM_TREE_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_SUM_TREE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchplan {

// The sum depends on the values alone, not on the order in which they came: values that are put
// back give the same sum, to the bit. At least one value, all at least 0.
class SumTree {
 public:
  // All values are 0.
  explicit SumTree(size_t values)
      : leaves_(std::bit_ceil(values)), sums_(2 * leaves_, 0), largest_(2 * leaves_, 0) {
    for (size_t leaf = 0; leaf < leaves_; ++leaf) {
      largest_[leaves_ + leaf] = static_cast<uint32_t>(leaf);
    }
    for (size_t node = leaves_; --node > 0;) largest_[node] = largest_[2 * node];
  }

  // O(log of the values).
  void Set(size_t at, double value) {
    size_t node = leaves_ + at;
    if (sums_[node] == value) return;
    sums_[node] = value;
    while ((node /= 2) > 0) {
      const uint32_t left = largest_[2 * node];
      const uint32_t right = largest_[2 * node + 1];
      sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
      largest_[node] = sums_[leaves_ + right] > sums_[leaves_ + left] ? right : left;
    }
  }

  double sum() const { return sums_[1]; }
  // The first place of the largest value.
  uint32_t largest() const { return largest_[1]; }
  double operator[](size_t at) const { return sums_[leaves_ + at]; }

 private:
  size_t leaves_;
  // Of the nodes: 1 is the root, the children of n are 2n and 2n + 1. sums_ of a leaf is its value.
  std::vector<double> sums_;
  std::vector<uint32_t> largest_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_SUM_TREE_H_
