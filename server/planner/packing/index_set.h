// A set of small numbers that finds a number's neighbours fast.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_INDEX_SET_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_INDEX_SET_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchplan {

// Numbers below a bound, as a bitmap under bitmaps of its nonzero words: every operation needs a
// step per factor of 64 in the bound, three for a quarter of a million. bound / 63 words of memory.
class IndexSet {
 public:
  // No such number.
  static constexpr size_t kNone = ~size_t{0};

  // The empty set of numbers below `bound`.
  explicit IndexSet(size_t bound) {
    size_t words = 0;
    for (size_t level = bound / 64 + 1;; level = level / 64 + 1) {
      begin_[levels_++] = words;
      words += level;
      if (level == 1) break;
    }
    begin_[levels_] = words;
    words_.resize(words);
  }

  bool Contains(size_t index) const { return (words_[index / 64] & Bit(index)) != 0; }

  void Insert(size_t index) {
    for (size_t level = 0; level < levels_; ++level, index /= 64) {
      uint64_t& word = words_[begin_[level] + index / 64];
      const bool known_above = word != 0;
      word |= Bit(index);
      if (known_above) return;
    }
  }

  void Erase(size_t index) {
    for (size_t level = 0; level < levels_; ++level, index /= 64) {
      uint64_t& word = words_[begin_[level] + index / 64];
      word &= ~Bit(index);
      if (word != 0) return;
    }
  }

  // The least number in the set that is at least `from`.
  size_t AtLeast(size_t from) const {
    for (size_t level = 0; level < levels_; ++level, from = from / 64 + 1) {
      const size_t at = begin_[level] + from / 64;
      if (at >= begin_[level + 1]) return kNone;
      const uint64_t word = words_[at] & ~(Bit(from) - 1);
      if (word == 0) continue;
      size_t found = from / 64 * 64 + First(word);
      while (level > 0) {
        --level;
        found = found * 64 + First(words_[begin_[level] + found]);
      }
      return found;
    }
    return kNone;
  }

  // The greatest number in the set that is at most `from`, which is below the bound.
  size_t AtMost(size_t from) const {
    for (size_t level = 0; level < levels_; ++level, from = from / 64 - 1) {
      const uint64_t word = words_[begin_[level] + from / 64] & (Bit(from) | (Bit(from) - 1));
      if (word != 0) {
        size_t found = from / 64 * 64 + Last(word);
        while (level > 0) {
          --level;
          found = found * 64 + Last(words_[begin_[level] + found]);
        }
        return found;
      }
      if (from < 64) return kNone;
    }
    return kNone;
  }

 private:
  static uint64_t Bit(size_t index) { return uint64_t{1} << index % 64; }
  static size_t First(uint64_t word) { return static_cast<size_t>(std::countr_zero(word)); }
  static size_t Last(uint64_t word) { return 63 - static_cast<size_t>(std::countl_zero(word)); }

  // Level 0 has a bit for every number, each further one a bit for every word of the last; level l
  // is words_[begin_[l] .. begin_[l + 1]).
  std::vector<uint64_t> words_;
  size_t levels_ = 0;
  std::array<size_t, 12> begin_ = {};
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_INDEX_SET_H_
