// Latencies of many calls, counted in buckets that are narrow everywhere.
//
//   LatencyHistogram latencies;
//   latencies.Record(absl::Microseconds(730));
//   latencies.Percentile(99.9);   // at most 0.8 % above what it was
//
// Log-linear buckets as in G. Tene's HdrHistogram: each power of two nanoseconds is cut into 128
// equal parts, so that a bucket is no wider than 1/128 of what it holds; below 128 ns a bucket is
// one nanosecond. 57 KiB, whatever is recorded. Record is thread-safe and takes one atomic
// addition; the rest is for when nobody records.

#ifndef BATCHPLAN_CLIENT_CLI_LATENCY_HISTOGRAM_H_
#define BATCHPLAN_CLIENT_CLI_LATENCY_HISTOGRAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"

namespace batchplan::cli {

class LatencyHistogram {
 public:
  LatencyHistogram();

  // A negative latency counts as 0.
  void Record(absl::Duration latency);

  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // Exact; 0 of nothing.
  absl::Duration max() const { return absl::Nanoseconds(max_.load(std::memory_order_relaxed)); }

  // The least latency that so many percent of all do not exceed, or up to 1/128 more; never above
  // max(). 0 of nothing. percent in 0 .. 100.
  absl::Duration Percentile(double percent) const;

 private:
  // 7 bits below the leading one of up to 63.
  static constexpr int kPartBits = 7;
  static constexpr size_t kBuckets = (64 - kPartBits) << kPartBits;

  static size_t BucketOf(uint64_t nanoseconds);
  // The largest value in it.
  static uint64_t EndOf(size_t bucket);

  std::unique_ptr<std::atomic<uint64_t>[]> buckets_;
  std::atomic<uint64_t> count_ = 0;
  std::atomic<int64_t> max_ = 0;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_LATENCY_HISTOGRAM_H_
