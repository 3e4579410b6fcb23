// A tournament tree over several numbers at once.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_MAXIMA_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_MAXIMA_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>

namespace batchplan {

// Has several numbers at each position and finds the next position where all of them are large
// enough: a node has the largest of each number below it. Logarithmic time, unless one number is
// large enough at some positions and another at others. `kWidth`: how many numbers, if known.
template <typename Number, size_t kWidth = std::dynamic_extent>
class Maxima {
 public:
  using Numbers = std::span<const Number, kWidth>;

  // `all` at every position.
  Maxima(size_t positions, Numbers all)
      : size_(positions),
        width_(all.size()),
        leaves_(std::bit_ceil(std::max<size_t>(positions, 1))),
        most_(std::make_unique_for_overwrite<Number[]>(2 * leaves_ * width_)) {
    for (size_t node = 1; node < 2 * leaves_; ++node) std::ranges::copy(all, At(node));
  }

  Numbers operator[](size_t position) const { return Numbers(At(leaves_ + position), width()); }
  // The largest of each number.
  Numbers most() const { return Numbers(At(1), width()); }
  // The largest at all positions but one, or `most`; of one number.
  Number MostBut(size_t position, Number most) const requires(kWidth == 1) {
    for (size_t node = leaves_ + position; node > 1; node /= 2)
      most = std::max(most, *At(node ^ 1));
    return most;
  }

  // The first position from `begin` on where each number is at least that of `least`; the number of
  // positions if there is none.
  size_t FirstAtLeast(size_t begin, Numbers least) const {
    if (begin >= size_) return size_;
    size_t node = leaves_ + begin;
    // Up from left children: nothing before `begin` is below.
    node >>= std::countr_zero(node);
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

  void Set(size_t position, Numbers numbers) {
    size_t node = leaves_ + position;
    std::ranges::copy(numbers, At(node));
    for (node /= 2; node > 0; node /= 2) {
      bool changed = false;
      for (size_t i = 0; i < width(); ++i) {
        const Number most = std::max(At(2 * node)[i], At(2 * node + 1)[i]);
        changed |= most != At(node)[i];
        At(node)[i] = most;
      }
      if (!changed) break;
    }
  }

 private:
  size_t width() const { return kWidth == std::dynamic_extent ? width_ : kWidth; }
  Number* At(size_t node) { return most_.get() + node * width(); }
  const Number* At(size_t node) const { return most_.get() + node * width(); }

  bool Suffices(size_t node, Numbers least) const {
    const Number* most = At(node);
    for (size_t i = 0; i < width(); ++i) {
      if (most[i] < least[i]) return false;
    }
    return true;
  }

  size_t size_;
  size_t width_;
  size_t leaves_;
  std::unique_ptr<Number[]> most_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_MAXIMA_H_
