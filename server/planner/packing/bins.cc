#include "server/planner/packing/bins.h"

#include <algorithm>
#include <numeric>

namespace batchplan {

size_t MostBins(const PackItems& items, const BinLimits& limits) {
  if (items.size() == 0) return 0;
  const auto sum = [](std::span<const uint32_t> numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), uint64_t{0});
  };
  const uint64_t sequences = items.counts.empty() ? items.size() : sum(items.counts);
  // Bins in pairs, perhaps with one left: each pair has more than one bin may have of tokens,
  // sequences or a load.
  uint64_t pairs = sum(items.lengths) / limits.capacity + sequences / limits.max_sequences;
  for (const PackLoad& load : items.limited) {
    const double total = std::accumulate(load.values.begin(), load.values.end(), 0.0);
    // One more, as sums are rounded.
    if (total > 0) pairs += static_cast<uint64_t>(total / load.most) + 1;
  }
  return std::min<uint64_t>(items.size(), 2 * pairs + 1);
}

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
