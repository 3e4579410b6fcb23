// A tournament tree over several numbers at once.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_MAXIMA_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_MAXIMA_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace batchplan {

// `width` numbers at each position, of which it finds the next where all are large enough: a node
// has the largest of each number below it. Logarithmic time, unless one number is large enough at
// some positions and another at others.
class Maxima {
 public:
  // All numbers are `all`, one for each place of the width.
  Maxima(size_t positions, std::span<const double> all)
      : size_(positions),
        width_(all.size()),
        leaves_(std::bit_ceil(std::max<size_t>(positions, 1))),
        most_(2 * leaves_ * width_) {
    for (size_t node = 1; node < 2 * leaves_; ++node) std::ranges::copy(all, At(node));
  }

  // The first position from `begin` on where each number is at least that of `least`; the number of
  // positions if there is none.
  size_t FirstAtLeast(size_t begin, std::span<const double> least) const {
    if (begin >= size_) return size_;
    size_t node = leaves_ + begin;
    // Up from left children: nothing before `begin` is below.
    while (node % 2 == 0) node /= 2;
    for (;;) {
      if (Suffices(node, least)) {
        if (node >= leaves_) break;
        node *= 2;
        continue;
      }
      while (node % 2 == 1) node /= 2;
      if (node == 0) return size_;
      ++node;
    }
    return std::min(node - leaves_, size_);
  }

  void Set(size_t position, std::span<const double> numbers) {
    size_t node = leaves_ + position;
    std::ranges::copy(numbers, At(node));
    for (node /= 2; node > 0; node /= 2) {
      bool changed = false;
      for (size_t i = 0; i < width_; ++i) {
        const double most = std::max(At(2 * node)[i], At(2 * node + 1)[i]);
        changed |= most != At(node)[i];
        At(node)[i] = most;
      }
      if (!changed) break;
    }
  }

 private:
  double* At(size_t node) { return most_.data() + node * width_; }
  const double* At(size_t node) const { return most_.data() + node * width_; }

  bool Suffices(size_t node, std::span<const double> least) const {
    const double* most = At(node);
    for (size_t i = 0; i < width_; ++i) {
      if (most[i] < least[i]) return false;
    }
    return true;
  }

  size_t size_;
  size_t width_;
  size_t leaves_;
  std::vector<double> most_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_MAXIMA_H_
