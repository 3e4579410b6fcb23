// An instance by its lengths: sorted, counted, indexed. Items of equal length are of one *kind*.
//
// Packers and searches that treat equal lengths alike go by the kinds, of which a batch of a
// million sequences has a few thousand.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_KINDS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_KINDS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"

namespace batchplan {

// A kind, and how many items are of it.
struct LengthCount {
  uint32_t length = 0;
  uint32_t count = 0;

  friend bool operator==(const LengthCount&, const LengthCount&) = default;
};

// The kinds, longest first. O(n) where the longest is at most a few times n; else O(n log n).
std::vector<LengthCount> CountLengths(std::span<const uint32_t> lengths);

// Items by (length, number), both descending: among equals the higher number goes first. This is
// the order of the "decreasing" packers. O(n): a counting sort where lengths are no larger than
// some times their number, a radix sort otherwise.
std::vector<uint32_t> DecreasingOrder(std::span<const uint32_t> lengths);

// Items in decreasing order, and their kinds, longest first.
struct DecreasingItems {
  std::vector<uint32_t> order;
  std::vector<LengthCount> lengths;
};

// DecreasingOrder with the kinds, which fall out of it.
DecreasingItems SortDecreasing(std::span<const uint32_t> lengths);

// The instance of the searches for few bins, to which only the *demand* for each kind matters: how
// many items are of it.
//
// They return bins of kinds: Bins whose "items" are indices into Kinds::lengths, each as often as
// the bin holds items of that kind.
struct Kinds {
  // Longest first, each different, in 1 .. capacity.
  std::vector<uint32_t> lengths;
  // Of each kind, the number of items.
  std::vector<uint32_t> demand;
  uint32_t capacity = 0;

  size_t size() const { return lengths.size(); }
};

Kinds KindsOf(std::span<const uint32_t> lengths, uint32_t capacity);

// The sum of lengths over `demand` items of each kind.
uint64_t TokensIn(const Kinds& kinds, std::span<const uint32_t> demand);

// Bins of items as bins of kinds.
Bins KindsInBins(const Bins& bins, std::span<const uint32_t> lengths, const Kinds& kinds);

// Bins of kinds as bins of items; among items of one kind the highest number goes first.
Bins ItemsInBins(const Bins& bins_of_kinds, std::span<const uint32_t> lengths);

// Finds the longest kind of at most a given number of tokens. Kinds are numbered longest first. A
// bitmap of at most `places` places, by the leading bits of the length, with the number of taken
// places before each of its words (G. Jacobson, "Space-efficient static trees and graphs", 1989);
// where several kinds share a place, binary search among them. The kinds must outlive it.
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

  // The number of the longest kind of at most `tokens`; the number of kinds if all are longer.
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
  // Where places are shared: first_[p] is the longest length in the p-th place that is taken, from
  // the shortest on; first_[0] is the number of lengths.
  std::vector<uint32_t> first_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_KINDS_H_
