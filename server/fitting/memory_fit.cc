#include "server/fitting/memory_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "server/fitting/median.h"

namespace batchplan {
namespace {

constexpr double kExtrapolation = 1.25;
constexpr double kSupportRange = 2;
constexpr size_t kSupportClasses = 4;
constexpr double kSupportDeviation = 0.05;
// Relative to memory proportional to tokens. A flatter line comes from a counter that nobody
// resets.
constexpr double kSupportSlope = 0.05;

double AsDouble(uint64_t value) { return static_cast<double>(value); }

double MedianSlope(const std::vector<PeakClass>& classes) {
  std::vector<double> slopes;
  slopes.reserve(classes.size() * classes.size() / 2);
  for (size_t i = 0; i < classes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double tokens = AsDouble(classes[i].max_tokens) - AsDouble(classes[j].max_tokens);
      if (tokens == 0) continue;
      slopes.push_back((AsDouble(classes[i].max_bytes) - AsDouble(classes[j].max_bytes)) / tokens);
    }
  }
  if (slopes.empty()) return 0;
  return std::max(0.0, Median(std::move(slopes)));
}

// bytes = at_zero + slope * tokens
struct Line {
  double at_zero = 0;
  double slope = 0;

  double At(uint64_t tokens) const { return at_zero + slope * AsDouble(tokens); }
};

// The lowest line with this slope that is not below any sample.
Line Envelope(const std::vector<PeakClass>& classes, double slope) {
  double at_zero = -std::numeric_limits<double>::infinity();
  for (const PeakClass& peaks : classes) {
    at_zero = std::max(at_zero, AsDouble(peaks.max_bytes) - slope * AsDouble(peaks.min_tokens));
  }
  return {.at_zero = at_zero, .slope = slope};
}

// The most tokens of a sample within the limit, among those with fewer tokens than any sample above
// the limit; 0 if there is none.
uint64_t MostSeenWithin(const std::vector<PeakClass>& classes, uint64_t limit_bytes) {
  uint64_t first_above = std::numeric_limits<uint64_t>::max();
  for (const PeakClass& peaks : classes) {
    if (peaks.max_bytes > limit_bytes) first_above = std::min(first_above, peaks.min_tokens);
  }
  uint64_t most = 0;
  for (const PeakClass& peaks : classes) {
    if (peaks.max_bytes > limit_bytes || peaks.max_tokens >= first_above) continue;
    most = std::max(most, peaks.max_tokens);
  }
  return most;
}

bool Supported(const std::vector<PeakClass>& classes, const Line& envelope, uint64_t most) {
  uint64_t fewest = most;
  for (const PeakClass& peaks : classes) fewest = std::min(fewest, peaks.min_tokens);
  const double top = envelope.At(most);
  if (classes.size() < kSupportClasses || AsDouble(most) < kSupportRange * AsDouble(fewest) ||
      envelope.slope < kSupportSlope * top / AsDouble(most)) {
    return false;
  }
  return std::ranges::all_of(classes, [&](const PeakClass& peaks) {
    return envelope.At(peaks.min_tokens) - AsDouble(peaks.min_bytes) <= kSupportDeviation * top &&
           envelope.At(peaks.max_tokens) - AsDouble(peaks.max_bytes) <= kSupportDeviation * top;
  });
}

}  // namespace

uint32_t PeakClassOf(uint64_t tokens) {
  const auto octave = static_cast<uint32_t>(std::bit_width(tokens));
  // The four bits behind the leading one.
  const uint64_t shifted = octave > 5 ? tokens >> (octave - 5) : tokens << (5 - octave);
  return octave * 16 + static_cast<uint32_t>(shifted & 15);
}

void AddPeak(uint64_t tokens, uint64_t peak_bytes, MemoryFit& fit) {
  if (fit.in_current == kPeakGeneration) {
    fit.previous = std::move(fit.current);
    fit.current.clear();
    fit.in_current = 0;
  }
  ++fit.in_current;
  const uint32_t index = PeakClassOf(tokens);
  const auto place = std::ranges::lower_bound(
      fit.current, index, {}, [](const PeakClass& peaks) { return PeakClassOf(peaks.min_tokens); });
  if (place != fit.current.end() && PeakClassOf(place->min_tokens) == index) {
    place->min_tokens = std::min(place->min_tokens, tokens);
    place->max_tokens = std::max(place->max_tokens, tokens);
    place->min_bytes = std::min(place->min_bytes, peak_bytes);
    place->max_bytes = std::max(place->max_bytes, peak_bytes);
    return;
  }
  fit.current.insert(place, {.min_tokens = tokens,
                             .max_tokens = tokens,
                             .min_bytes = peak_bytes,
                             .max_bytes = peak_bytes});
  if (fit.current.size() > kPeakClasses) fit.current.erase(fit.current.begin());
}

uint32_t SuggestTokens(const MemoryFit& fit, uint64_t limit_bytes) {
  std::vector<PeakClass> classes = fit.previous;
  classes.insert(classes.end(), fit.current.begin(), fit.current.end());
  if (classes.empty()) return 0;
  uint64_t fewest = classes[0].min_tokens;
  uint64_t most = 0;
  for (const PeakClass& peaks : classes) {
    fewest = std::min(fewest, peaks.min_tokens);
    most = std::max(most, peaks.max_tokens);
  }
  const Line envelope = Envelope(classes, MedianSlope(classes));
  const double limit = AsDouble(limit_bytes);
  const double top = envelope.At(most);
  double tokens = 0;
  if (top > limit) {
    if (envelope.At(fewest) <= limit) {
      tokens = std::min((limit - envelope.at_zero) / envelope.slope, AsDouble(most));
    }
    // The line is above the samples by up to the width of their classes.
    tokens = std::max(tokens, AsDouble(MostSeenWithin(classes, limit_bytes)));
  } else {
    const double slope = Supported(classes, envelope, most) ? envelope.slope : top / AsDouble(most);
    tokens = std::min(AsDouble(most) + (limit - top) / slope, kExtrapolation * AsDouble(most));
  }
  return static_cast<uint32_t>(
      std::min(std::floor(tokens), AsDouble(std::numeric_limits<uint32_t>::max())));
}

}  // namespace batchplan
