#include "server/planner/packing/dual_feasible.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace batchplan {
namespace {

// What one bound may cost, but for the least number of periods.
constexpr size_t kMaxEvaluations = size_t{1} << 16;
constexpr size_t kMinPeriods = 4;
// Periods tried without a threshold; and periods, and as many thresholds, tried with each other.
constexpr size_t kMaxPeriods = 256;
constexpr size_t kMaxCrossed = 16;

// An instance behind a threshold e <= C/2: items above C - e have bins of their own, those below e
// are dropped.
struct Thresholded {
  Thresholded(std::span<const LengthCount> lengths, uint32_t capacity, uint32_t threshold) {
    const auto first = std::partition_point(
        lengths.begin(), lengths.end(),
        [&](const LengthCount& kind) { return kind.length > capacity - threshold; });
    const auto last = std::partition_point(
        first, lengths.end(), [&](const LengthCount& kind) { return kind.length >= threshold; });
    for (auto kind = lengths.begin(); kind != first; ++kind) alone += kind->count;
    rest = {first, last};
  }

  uint64_t Bound(const DualFeasible& value) const {
    uint64_t sum = 0;
    for (const LengthCount& kind : rest) sum += kind.count * value(kind.length);
    return alone + sum / value.most() + (sum % value.most() != 0);
  }

  uint64_t alone = 0;
  std::span<const LengthCount> rest;
};

// Up to `count` of the values, spread evenly.
std::vector<uint32_t> Sample(const std::vector<uint32_t>& values, size_t count) {
  if (values.size() <= count) return values;
  std::vector<uint32_t> sample(count);
  for (size_t i = 0; i < count; ++i) sample[i] = values[i * values.size() / count];
  return sample;
}

// Where the sum over items changes its slope in the period: at lengths, which come longest first,
// and their complements. Ascending.
std::vector<uint32_t> Periods(std::span<const LengthCount> lengths, uint32_t capacity) {
  std::vector<uint32_t> periods;
  periods.reserve(2 * lengths.size());
  auto kind = lengths.rbegin();
  for (const LengthCount& longest : lengths) {
    const uint32_t complement = capacity - longest.length;
    if (complement == 0) continue;
    for (; kind != lengths.rend() && kind->length <= complement; ++kind) {
      if (kind->length < complement) periods.push_back(kind->length);
    }
    periods.push_back(complement);
  }
  for (; kind != lengths.rend(); ++kind) periods.push_back(kind->length);
  return periods;
}

// Twelfths of the capacity: uniform lengths in C/4 .. C/2, for one, are bounded best by 5/12 C.
std::vector<uint32_t> Fractions(uint32_t capacity) {
  std::vector<uint32_t> fractions;
  for (uint64_t i = 1; i <= 12; ++i) {
    const auto fraction = static_cast<uint32_t>(capacity * i / 12);
    if (fraction > 0) fractions.push_back(fraction);
  }
  return fractions;
}

// Lengths of up to half the capacity, ascending.
std::vector<uint32_t> Thresholds(std::span<const LengthCount> lengths, uint32_t capacity) {
  std::vector<uint32_t> thresholds;
  for (auto kind = lengths.rbegin(); kind != lengths.rend(); ++kind) {
    if (kind->length > capacity / 2) break;
    thresholds.push_back(kind->length);
  }
  return thresholds;
}

}  // namespace

uint64_t DualFeasibleBound(std::span<const LengthCount> lengths, uint32_t capacity,
                           uint64_t enough) {
  if (lengths.empty()) return 0;
  const size_t affordable = std::max(kMinPeriods, kMaxEvaluations / lengths.size());
  uint64_t best = 0;
  const auto try_periods = [&](const Thresholded& items, std::span<const uint32_t> periods) {
    for (uint32_t period : periods) {
      if (best >= enough) return;
      best = std::max(best, items.Bound(DualFeasible(period, capacity)));
    }
  };
  const Thresholded all(lengths, capacity, 0);
  try_periods(all, Fractions(capacity));
  if (best >= enough) return best;
  const std::vector<uint32_t> periods = Periods(lengths, capacity);
  try_periods(all, Sample(periods, std::min(affordable, kMaxPeriods)));
  if (best >= enough) return best;
  size_t crossed = kMaxCrossed;
  while (crossed * crossed > affordable) crossed /= 2;
  const std::vector<uint32_t> crossed_periods = Sample(periods, crossed);
  for (uint32_t threshold : Sample(Thresholds(lengths, capacity), crossed)) {
    try_periods(Thresholded(lengths, capacity, threshold), crossed_periods);
  }
  return best;
}

DualFeasible BestDualFeasible(std::span<const LengthCount> lengths, uint32_t capacity) {
  DualFeasible best(capacity, capacity);
  const Thresholded all(lengths, capacity, 0);
  uint64_t best_bound = all.Bound(best);
  for (uint32_t period : Fractions(capacity)) {
    const DualFeasible other(period, capacity);
    const uint64_t bound = all.Bound(other);
    if (bound <= best_bound) continue;
    best_bound = bound;
    best = other;
  }
  return best;
}

}  // namespace batchplan
