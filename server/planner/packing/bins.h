// Bins of items: the output of every packer.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BINS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace batchplan {

struct BinLimits {
  uint32_t capacity = 0;
  // Items in one bin.
  uint32_t max_items = std::numeric_limits<uint32_t>::max();
};

// Bins as one flat array: bin b holds items[offsets[b] .. offsets[b + 1]).
class Bins {
 public:
  // No bins.
  Bins() : offsets_{0} {}

  // The bins 0 .. bin_count - 1 with, in placement order, item items[i] in bin bin_of[i].
  Bins(std::span<const uint32_t> items, std::span<const uint32_t> bin_of, uint32_t bin_count);

  size_t size() const { return offsets_.size() - 1; }
  std::span<const uint32_t> operator[](size_t bin) const {
    return std::span(items_).subspan(offsets_[bin], offsets_[bin + 1] - offsets_[bin]);
  }

  // Appends a bin.
  void Add(std::span<const uint32_t> items);

 private:
  std::vector<uint32_t> items_;
  std::vector<uint32_t> offsets_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BINS_H_
