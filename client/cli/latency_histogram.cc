#include "client/cli/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace batchplan::cli {

LatencyHistogram::LatencyHistogram()
    : buckets_(std::make_unique<std::atomic<uint64_t>[]>(kBuckets)) {}

size_t LatencyHistogram::BucketOf(uint64_t nanoseconds) {
  // The first 2^kPartBits values have a bucket each; from there on, the kPartBits bits behind the
  // leading one say which of its parts.
  const int width = static_cast<int>(std::bit_width(nanoseconds));
  if (width <= kPartBits) return static_cast<size_t>(nanoseconds);
  const int shift = width - 1 - kPartBits;
  const uint64_t part = (nanoseconds >> shift) - (uint64_t{1} << kPartBits);
  return (static_cast<size_t>(shift + 1) << kPartBits) + static_cast<size_t>(part);
}

uint64_t LatencyHistogram::EndOf(size_t bucket) {
  if (bucket < (size_t{1} << kPartBits)) return bucket;
  const int shift = static_cast<int>(bucket >> kPartBits) - 1;
  const uint64_t part = bucket & ((size_t{1} << kPartBits) - 1);
  return (((uint64_t{1} << kPartBits) + part + 1) << shift) - 1;
}

void LatencyHistogram::Record(absl::Duration latency) {
  const int64_t nanoseconds = std::max<int64_t>(0, absl::ToInt64Nanoseconds(latency));
  buckets_[BucketOf(static_cast<uint64_t>(nanoseconds))].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  int64_t max = max_.load(std::memory_order_relaxed);
  while (max < nanoseconds &&
         !max_.compare_exchange_weak(max, nanoseconds, std::memory_order_relaxed)) {
  }
}

absl::Duration LatencyHistogram::Percentile(double percent) const {
  const uint64_t count = this->count();
  if (count == 0) return absl::ZeroDuration();
  const auto rank = static_cast<uint64_t>(
      std::max(1.0, std::ceil(percent / 100 * static_cast<double>(count) - 1e-9)));
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket].load(std::memory_order_relaxed);
    if (seen >= rank) {
      return std::min(max(), absl::Nanoseconds(static_cast<int64_t>(EndOf(bucket))));
    }
  }
  return max();
}

}  // namespace batchplan::cli
