#include "server/planner/packing/lower_bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace batchplan {
namespace {

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

uint64_t VolumeBound(std::span<const uint32_t> lengths, uint32_t capacity) {
  return CeilDiv(std::accumulate(lengths.begin(), lengths.end(), uint64_t{0}), capacity);
}

uint64_t MartelloTothL2(std::span<const uint32_t> lengths, uint32_t capacity) {
  std::vector<uint32_t> sorted(lengths.begin(), lengths.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::vector<uint64_t> sum(sorted.size() + 1, 0);
  std::partial_sum(sorted.begin(), sorted.end(), sum.begin() + 1,
                   [](uint64_t a, uint64_t b) { return a + b; });
  const auto above = [&](uint64_t length) -> size_t {
    return std::partition_point(sorted.begin(), sorted.end(),
                                [&](uint32_t l) { return l > length; }) -
           sorted.begin();
  };

  const size_t over_half = above(capacity / 2);
  // K = 0 and every distinct length <= C/2; `last` is the end of the items of at least K, `alone`
  // that of the items above C - K.
  uint64_t best = 0;
  size_t alone = above(capacity);
  size_t last = sorted.size();
  for (uint64_t threshold = 0;;) {
    while (alone < over_half && sorted[alone] > capacity - threshold) ++alone;
    const uint64_t beside =
        (over_half - alone) * uint64_t{capacity} - (sum[over_half] - sum[alone]);
    const uint64_t fill = sum[last] - sum[over_half];
    best = std::max(best, over_half + (fill > beside ? CeilDiv(fill - beside, capacity) : 0));
    if (last == over_half) return best;
    // The next threshold is the smallest length still counted; after it, drop its equals.
    if (threshold == sorted[last - 1]) {
      while (last > over_half && sorted[last - 1] == threshold) --last;
      if (last == over_half) return best;
    }
    threshold = sorted[last - 1];
  }
}

uint64_t CountBound(const PackItems& items, const BinLimits& limits) {
  const uint64_t sequences =
      items.counts.empty() ? items.size()
                           : std::accumulate(items.counts.begin(), items.counts.end(), uint64_t{0});
  return CeilDiv(sequences, limits.max_sequences);
}

uint64_t LowerBoundBins(const PackItems& items, const BinLimits& limits) {
  // L2 with K = 0 is the volume bound.
  return std::max(MartelloTothL2(items.lengths, limits.capacity), CountBound(items, limits));
}

}  // namespace batchplan
