// Finding a length among those of a batch.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_INDEX_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_INDEX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/decreasing.h"

namespace batchplan {

// Numbers different lengths, longest first, and tells the longest that is no longer than a given
// number of tokens. A table of at most `places` entries, by the leading bits; where several lengths
// share those, binary search among them. The lengths must outlive it.
class LengthIndex {
 public:
  LengthIndex(std::span<const LengthCount> lengths, size_t places) : lengths_(lengths) {
    while (longest() >> shift_ > places) ++shift_;
    from_.resize((longest() >> shift_) + 2);
    size_t above = from_.size();
    for (uint32_t i = 0; i < lengths.size(); ++i) {
      const size_t leading = lengths[i].length >> shift_;
      while (above > leading + 1) from_[--above] = i;
    }
    while (above > 0) from_[--above] = static_cast<uint32_t>(lengths.size());
  }

  uint32_t length(size_t number) const { return lengths_[number].length; }

  // The number of the longest length of at most `tokens`; how many there are if all are longer.
  size_t UpTo(uint32_t tokens) const {
    tokens = std::min(tokens, longest());
    const size_t leading = tokens >> shift_;
    if (shift_ == 0) return from_[leading + 1];
    const auto first = lengths_.begin() + from_[leading + 1];
    const auto last = lengths_.begin() + from_[leading];
    return std::partition_point(first, last,
                                [&](const LengthCount& l) { return l.length > tokens; }) -
           lengths_.begin();
  }

 private:
  uint32_t longest() const { return lengths_.front().length; }

  std::span<const LengthCount> lengths_;
  uint32_t shift_ = 0;
  // from_[v]: how many lengths have leading bits of v or more.
  std::vector<uint32_t> from_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_INDEX_H_
