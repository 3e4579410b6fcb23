// A set of small numbers that finds the next one at once.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_INDEX_SET_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_INDEX_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchplan {

// Of the numbers 0 .. capacity - 1: a tree of bitmaps, 64 children to a node, so that every
// operation on a million numbers touches at most four words. Memory: capacity / 8 bytes and a 63rd
// of that.
class IndexSet {
 public:
  // Holds all numbers below `capacity`.
  explicit IndexSet(size_t capacity) : size_(capacity) {
    for (size_t bits = capacity; levels_.empty() || bits > 1; bits = (bits + 63) / 64) {
      std::vector<uint64_t>& level = levels_.emplace_back((bits + 63) / 64, ~uint64_t{0});
      if (bits % 64 != 0) level.back() = (uint64_t{1} << bits % 64) - 1;
    }
  }

  size_t size() const { return size_; }

  // The least member that is at least `from`; `capacity` or more if there is none.
  size_t Next(size_t from) const {
    for (size_t height = 0; height < levels_.size(); ++height) {
      const std::vector<uint64_t>& level = levels_[height];
      if (from / 64 >= level.size()) return kNone;
      const uint64_t rest = level[from / 64] >> from % 64;
      if (rest != 0) {
        from += std::countr_zero(rest);
        while (height-- > 0) from = from * 64 + std::countr_zero(levels_[height][from]);
        return from;
      }
      from = from / 64 + 1;
    }
    return kNone;
  }

  // `member` is in the set.
  void Erase(size_t member) {
    --size_;
    for (std::vector<uint64_t>& level : levels_) {
      level[member / 64] &= ~(uint64_t{1} << member % 64);
      if (level[member / 64] != 0) return;
      member /= 64;
    }
  }

  // `number` is not in the set.
  void Insert(size_t number) {
    ++size_;
    for (std::vector<uint64_t>& level : levels_) {
      level[number / 64] |= uint64_t{1} << number % 64;
      number /= 64;
    }
  }

  static constexpr size_t kNone = ~size_t{0};

 private:
  std::vector<std::vector<uint64_t>>
      levels_;  // of bits; a bit of one stands for a word of the last
  size_t size_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_INDEX_SET_H_
