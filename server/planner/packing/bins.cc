#include "server/planner/packing/bins.h"

namespace batchplan {

Bins::Bins(std::span<const uint32_t> items, std::span<const uint32_t> bin_of, uint32_t bin_count)
    : items_(items.size()), offsets_(size_t{bin_count} + 1, 0) {
  for (uint32_t bin : bin_of) ++offsets_[bin + 1];
  for (size_t bin = 0; bin < bin_count; ++bin) offsets_[bin + 1] += offsets_[bin];
  std::vector<uint32_t> next(offsets_.begin(), offsets_.end() - 1);
  for (size_t i = 0; i < items.size(); ++i) items_[next[bin_of[i]]++] = items[i];
}

void Bins::Add(std::span<const uint32_t> items) {
  items_.insert(items_.end(), items.begin(), items.end());
  offsets_.push_back(static_cast<uint32_t>(items_.size()));
}

}  // namespace batchplan
