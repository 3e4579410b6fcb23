#include "server/planner/packing/lower_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "server/planner/packing/kinds.h"

namespace batchplan {
namespace {

// The most evaluations of one bound, except that kMinPeriods periods are always tried.
constexpr size_t kMaxEvaluations = size_t{1} << 16;
constexpr size_t kMinPeriods = 4;
// Periods tried without a threshold; and periods tried with each of as many thresholds.
constexpr size_t kMaxPeriods = 256;
constexpr size_t kMaxCrossed = 16;

// Lengths, longest first, with the items and tokens before each.
class Totals {
 public:
  explicit Totals(std::span<const LengthCount> lengths) : lengths_(lengths) {
    items_.reserve(lengths.size() + 1);
    tokens_.reserve(lengths.size() + 1);
    for (const LengthCount& kind : lengths) {
      items_.push_back(items_.back() + kind.count);
      tokens_.push_back(tokens_.back() + uint64_t{kind.count} * kind.length);
    }
  }

  std::span<const LengthCount> lengths() const { return lengths_; }
  uint64_t Items(size_t first, size_t last) const { return items_[last] - items_[first]; }

  // The sum of the function over the items in first .. last. Between two multiples of the period it
  // is flat and then of slope 1, so only its corners are needed.
  uint64_t Sum(const DualFeasible& value, size_t first, size_t last) const {
    uint64_t sum = 0;
    while (first < last) {
      const uint32_t periods = lengths_[first].length / value.period();
      const uint64_t begin = uint64_t{periods} * value.period();
      const size_t flat = FirstBelow(begin + value.flat() + 1, first, last);
      const size_t next = FirstBelow(begin, flat, last);
      sum += Items(first, next) * periods * (value.period() - value.flat()) + tokens_[flat] -
             tokens_[first] - Items(first, flat) * (begin + value.flat());
      first = next;
    }
    return sum;
  }

 private:
  // The first of first .. last that is shorter than `length`. In ever longer steps, as it is often
  // close.
  size_t FirstBelow(uint64_t length, size_t first, size_t last) const {
    size_t step = 1;
    while (step < last - first && lengths_[first + step - 1].length >= length) {
      first += step;
      step *= 2;
    }
    const auto begin = lengths_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(step, last - first));
    const auto found = std::partition_point(
        begin, end, [&](const LengthCount& kind) { return kind.length >= length; });
    return static_cast<size_t>(found - lengths_.begin());
  }

  std::span<const LengthCount> lengths_;
  std::vector<uint64_t> items_ = {0};
  std::vector<uint64_t> tokens_ = {0};
};

// An instance behind a threshold e <= C/2: items above C - e have bins of their own, those below e
// are dropped.
class Thresholded {
 public:
  Thresholded(const Totals& totals, uint32_t capacity, uint32_t threshold) : totals_(totals) {
    const std::span<const LengthCount> lengths = totals.lengths();
    const auto first = std::partition_point(
        lengths.begin(), lengths.end(),
        [&](const LengthCount& kind) { return kind.length > capacity - threshold; });
    const auto last = std::partition_point(
        first, lengths.end(), [&](const LengthCount& kind) { return kind.length >= threshold; });
    first_ = static_cast<size_t>(first - lengths.begin());
    last_ = static_cast<size_t>(last - lengths.begin());
  }

  uint64_t Bound(const DualFeasible& value) const {
    const uint64_t sum = totals_.Sum(value, first_, last_);
    return totals_.Items(0, first_) + CeilDiv(sum, value.most());
  }

 private:
  const Totals& totals_;
  size_t first_ = 0;
  size_t last_ = 0;
};

// Up to `count` of the values, evenly spaced.
std::vector<uint32_t> Sample(const std::vector<uint32_t>& values, size_t count) {
  if (values.size() <= count) return values;
  std::vector<uint32_t> sample(count);
  for (size_t i = 0; i < count; ++i) sample[i] = values[i * values.size() / count];
  return sample;
}

// The periods at which the sum over the items, as a function of the period, has its corners: the
// lengths, which are given longest first, and the capacity less each length. Ascending.
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
  const Totals totals(lengths);
  const Thresholded all(totals, capacity, 0);
  try_periods(all, Fractions(capacity));
  if (best >= enough) return best;
  const std::vector<uint32_t> periods = Periods(lengths, capacity);
  try_periods(all, Sample(periods, std::min(affordable, kMaxPeriods)));
  if (best >= enough) return best;
  size_t crossed = kMaxCrossed;
  while (crossed * crossed > affordable) crossed /= 2;
  const std::vector<uint32_t> crossed_periods = Sample(periods, crossed);
  for (uint32_t threshold : Sample(Thresholds(lengths, capacity), crossed)) {
    try_periods(Thresholded(totals, capacity, threshold), crossed_periods);
  }
  return best;
}

DualFeasible BestDualFeasible(std::span<const LengthCount> lengths, uint32_t capacity) {
  DualFeasible best(capacity, capacity);
  const Totals totals(lengths);
  const Thresholded all(totals, capacity, 0);
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

namespace {

uint64_t Sum(std::span<const uint32_t> values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// L2 of kinds, longest first.
uint64_t L2(std::span<const LengthCount> lengths, uint32_t capacity) {
  // The items of the kinds before each, and their tokens.
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
  // Items before `last` have at least K tokens; items before `alone` more than C - K.
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

namespace {

// A limited load as lengths: no bin within the limit has more than `capacity`. Items without the
// load are left out.
struct LoadLengths {
  std::vector<uint32_t> lengths;
  uint32_t capacity = 0;
};

LoadLengths LengthsOf(const PackLoad& load) {
  constexpr double kUnits = 1 << 20;
  constexpr double kMostWhole = 1 << 30;
  const bool whole =
      load.most >= 1 && load.most < kMostWhole &&
      std::ranges::all_of(load.values, [](double value) { return value == std::floor(value); });
  LoadLengths scaled;
  scaled.capacity = static_cast<uint32_t>(whole ? load.most : kUnits);
  scaled.lengths.reserve(load.values.size());
  for (const double value : load.values) {
    if (value <= 0) continue;
    // Rounded down: in a bin within the limit the sum is at most the capacity.
    const double length = whole ? value : kUnits * (value / load.most);
    const auto rounded = std::min(static_cast<uint32_t>(length), scaled.capacity);
    if (rounded > 0) scaled.lengths.push_back(rounded);
  }
  return scaled;
}

}  // namespace

uint64_t LoadVolumeBound(std::span<const PackLoad> limited) {
  uint64_t bound = 0;
  for (const PackLoad& load : limited) {
    const double sum = std::accumulate(load.values.begin(), load.values.end(), 0.0);
    if (sum <= 0) continue;
    // Below the true quotient, however the sum was rounded.
    const double rounding =
        static_cast<double>(load.values.size()) * std::numeric_limits<double>::epsilon();
    bound = std::max(bound, static_cast<uint64_t>(std::ceil(sum / load.most * (1 - rounding))));
  }
  return bound;
}

uint64_t LoadBound(std::span<const PackLoad> limited, uint64_t enough) {
  uint64_t bound = LoadVolumeBound(limited);
  for (const PackLoad& load : limited) {
    if (bound >= enough) break;
    const LoadLengths scaled = LengthsOf(load);
    const std::vector<LengthCount> lengths = CountLengths(scaled.lengths);
    bound = std::max(bound, L2(lengths, scaled.capacity));
    if (bound >= enough) break;
    bound = std::max(bound, DualFeasibleBound(lengths, scaled.capacity, enough));
  }
  return bound;
}

uint64_t LowerBoundBins(const PackItems& items, const BinLimits& limits, uint64_t enough) {
  uint64_t bound = std::max({VolumeBound(items.lengths, limits.capacity), CountBound(items, limits),
                             LoadVolumeBound(items.limited)});
  if (bound >= enough) return bound;
  const std::vector<LengthCount> lengths = CountLengths(items.lengths);
  bound = std::max(bound, L2(lengths, limits.capacity));
  if (bound >= enough) return bound;
  bound = std::max(bound, DualFeasibleBound(lengths, limits.capacity, enough));
  return bound >= enough ? bound : std::max(bound, LoadBound(items.limited, enough));
}

}  // namespace batchplan
