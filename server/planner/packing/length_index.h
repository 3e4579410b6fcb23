// Finding a length among those of a batch.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_INDEX_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_INDEX_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/decreasing.h"

namespace batchplan {

// Numbers different lengths, longest first, and tells the longest that is no longer than a given
// number of tokens. A bitmap of at most `places` places, by the leading bits, with how many places
// are taken before each of its words (G. Jacobson, "Space-efficient static trees and graphs",
// 1989); where several lengths share a place, binary search among them. The lengths must outlive
// it.
class LengthIndex {
 public:
  LengthIndex(std::span<const LengthCount> lengths, size_t places) : lengths_(lengths) {
    while (longest() >> shift_ >= places) ++shift_;
    words_.resize((longest() >> shift_) / 64 + 1);
    for (const LengthCount& l : lengths) {
      const uint32_t place = l.length >> shift_;
      words_[place / 64].taken |= uint64_t{1} << place % 64;
    }
    uint32_t before = 0;
    for (Word& word : words_) {
      word.before = before;
      before += static_cast<uint32_t>(std::popcount(word.taken));
    }
    if (shift_ > 0) SharePlaces(before);
  }

  uint32_t length(size_t number) const { return lengths_[number].length; }

  // The number of the longest length of at most `tokens`; how many there are if all are longer.
  size_t UpTo(uint32_t tokens) const {
    tokens = std::min(tokens, longest());
    const uint32_t place = tokens >> shift_;
    const Word& word = words_[place / 64];
    // Places taken up to this one.
    const size_t taken =
        word.before + static_cast<size_t>(std::popcount(word.taken << (63 - place % 64)));
    if (shift_ == 0) return lengths_.size() - taken;
    if (taken == 0) return lengths_.size();
    const auto first = lengths_.begin() + first_[taken];
    const auto last = lengths_.begin() + first_[taken - 1];
    return std::partition_point(first, last,
                                [&](const LengthCount& l) { return l.length > tokens; }) -
           lengths_.begin();
  }

 private:
  struct Word {
    uint64_t taken = 0;
    uint32_t before = 0;
  };

  uint32_t longest() const { return lengths_.front().length; }

  void SharePlaces(size_t taken) {
    first_.resize(taken + 1);
    first_[0] = static_cast<uint32_t>(lengths_.size());
    for (size_t i = lengths_.size(), place = 0; i-- > 0;) {
      const bool same = i + 1 < lengths_.size() &&
                        lengths_[i].length >> shift_ == lengths_[i + 1].length >> shift_;
      if (!same) ++place;
      first_[place] = static_cast<uint32_t>(i);
    }
  }

  std::span<const LengthCount> lengths_;
  uint32_t shift_ = 0;
  std::vector<Word> words_;
  // Where places are shared: the first length of each taken one, from the last; all before.
  std::vector<uint32_t> first_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_INDEX_H_
