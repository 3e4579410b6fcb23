#include "server/planner/packing/concatenative.h"

#include <numeric>
#include <vector>

namespace batchplan {

Bins PackConcatenative(std::span<const uint32_t> lengths, const BinLimits& limits) {
  std::vector<uint32_t> items(lengths.size());
  std::iota(items.begin(), items.end(), 0u);
  std::vector<uint32_t> bin_of(lengths.size());
  uint32_t bins = 0;
  uint32_t residual = 0;
  uint32_t count = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (bins == 0 || lengths[i] > residual || count == limits.max_items) {
      ++bins;
      residual = limits.capacity;
      count = 0;
    }
    bin_of[i] = bins - 1;
    residual -= lengths[i];
    ++count;
  }
  return Bins(items, bin_of, bins);
}

}  // namespace batchplan
