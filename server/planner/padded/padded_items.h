// What the padded layout's algorithms work on. A micro-batch is a run of the items sorted by width:
// [count, width], width that of its last item.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_PADDED_ITEMS_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_PADDED_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace batchplan {

// Views of one size.
struct PaddedItems {
  // Aligned, ascending, at least 1.
  std::span<const uint32_t> widths;
  // Sequences in an item; empty: one each.
  std::span<const uint32_t> counts = {};

  size_t size() const { return widths.size(); }
  uint32_t count(size_t item) const { return counts.empty() ? 1 : counts[item]; }
};

struct PaddedLimits {
  // Sequences times width of a micro-batch. Every item fits alone.
  uint64_t tokens = 0;
  uint64_t sequences = std::numeric_limits<uint64_t>::max();

  bool Allow(uint64_t count, uint32_t width) const {
    // Counts are below 2^31: no overflow.
    return count <= sequences && count * width <= tokens;
  }
};

// Run m is the items [cuts[m], cuts[m + 1]); none is empty.
using Cuts = std::vector<uint32_t>;

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_PADDED_ITEMS_H_
