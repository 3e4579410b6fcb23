// The least of any run of an array, in constant time.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_RANGE_MINIMA_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_RANGE_MINIMA_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace batchplan {

// A sparse table over blocks of values (M. A. Bender, M. Farach-Colton, "The LCA problem
// revisited", 2000), and in each block the minima up to every value and from it on. Linear memory.
class RangeMinima {
 public:
  RangeMinima() = default;
  explicit RangeMinima(std::vector<uint32_t> values)
      : values_(std::move(values)), up_to_(values_), from_(values_) {
    for (size_t i = 1; i < values_.size(); ++i) {
      if (i % kBlock != 0) up_to_[i] = std::min(up_to_[i], up_to_[i - 1]);
    }
    for (size_t i = values_.size(); i-- > 1;) {
      if (i % kBlock != 0) from_[i - 1] = std::min(from_[i - 1], from_[i]);
    }
    std::vector<uint32_t> level;
    for (size_t i = 0; i < values_.size(); i += kBlock) level.push_back(from_[i]);
    for (size_t span = 1; !level.empty(); span *= 2) {
      levels_.push_back(level);
      if (level.size() <= span) break;
      for (size_t i = 0; i + span < level.size(); ++i)
        level[i] = std::min(level[i], level[i + span]);
      level.resize(level.size() - span);
    }
  }

  size_t size() const { return values_.size(); }
  uint32_t operator[](size_t i) const { return values_[i]; }
  std::span<const uint32_t> values() const { return values_; }

  // The least of the values first .. last, both included; first <= last.
  uint32_t Of(size_t first, size_t last) const {
    const size_t begin = first / kBlock;
    const size_t end = last / kBlock;
    if (begin == end) {
      uint32_t least = values_[first];
      while (first < last) least = std::min(least, values_[++first]);
      return least;
    }
    uint32_t least = std::min(from_[first], up_to_[last]);
    if (begin + 1 < end) {
      const size_t blocks = end - begin - 1;
      const auto level = static_cast<size_t>(std::bit_width(blocks)) - 1;
      least =
          std::min({least, levels_[level][begin + 1], levels_[level][end - (size_t{1} << level)]});
    }
    return least;
  }

 private:
  static constexpr size_t kBlock = 16;

  std::vector<uint32_t> values_;
  // For each value, the minima of its block up to it and from it on.
  std::vector<uint32_t> up_to_;
  std::vector<uint32_t> from_;
  // Entry i of level k: the least of blocks i .. i + 2^k - 1.
  std::vector<std::vector<uint32_t>> levels_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_RANGE_MINIMA_H_
