#include "server/planner/packing/lower_bounds.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "server/planner/packing/dual_feasible.h"
#include "server/planner/packing/length_counts.h"

namespace batchplan {
namespace {

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

uint64_t Sum(std::span<const uint32_t> values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// L2 of lengths that are counted, longest first.
uint64_t L2(std::span<const LengthCount> lengths, uint32_t capacity) {
  // Of the kinds before each: how many items, and their sum.
  std::vector<uint64_t> count(lengths.size() + 1, 0);
  std::vector<uint64_t> sum(lengths.size() + 1, 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    count[i + 1] = count[i] + lengths[i].count;
    sum[i + 1] = sum[i] + uint64_t{lengths[i].count} * lengths[i].length;
  }
  size_t over_half = 0;
  while (over_half < lengths.size() && lengths[over_half].length > capacity / 2) ++over_half;

  uint64_t best = 0;
  size_t alone = 0;
  // Of the items, those before `last` are of at least K; those before `alone` are above C - K.
  const auto try_threshold = [&](uint32_t threshold, size_t last) {
    while (alone < over_half && lengths[alone].length > capacity - threshold) ++alone;
    const uint64_t beside =
        (count[over_half] - count[alone]) * capacity - (sum[over_half] - sum[alone]);
    const uint64_t fill = sum[last] - sum[over_half];
    best =
        std::max(best, count[over_half] + (fill > beside ? CeilDiv(fill - beside, capacity) : 0));
  };
  try_threshold(0, lengths.size());
  for (size_t last = lengths.size(); last > over_half; --last) {
    try_threshold(lengths[last - 1].length, last);
  }
  return best;
}

}  // namespace

uint64_t VolumeBound(std::span<const uint32_t> lengths, uint32_t capacity) {
  return CeilDiv(Sum(lengths), capacity);
}

uint64_t MartelloTothL2(std::span<const uint32_t> lengths, uint32_t capacity) {
  return L2(CountLengths(lengths), capacity);
}

uint64_t CountBound(const PackItems& items, const BinLimits& limits) {
  if (items.counts.empty()) return CeilDiv(items.size(), limits.max_sequences);
  const uint64_t sequences = Sum(items.counts);
  if (sequences <= limits.max_sequences) return sequences > 0;
  const std::vector<LengthCount> counts = CountLengths(items.counts);
  return std::max(L2(counts, limits.max_sequences),
                  DualFeasibleBound(counts, limits.max_sequences));
}

uint64_t LowerBoundBins(const PackItems& items, const BinLimits& limits, uint64_t enough) {
  uint64_t bound = std::max(VolumeBound(items.lengths, limits.capacity), CountBound(items, limits));
  if (bound >= enough) return bound;
  const std::vector<LengthCount> lengths = CountLengths(items.lengths);
  bound = std::max(bound, L2(lengths, limits.capacity));
  if (bound >= enough) return bound;
  return std::max(bound, DualFeasibleBound(lengths, limits.capacity, enough));
}

}  // namespace batchplan
