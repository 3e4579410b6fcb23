// What a benchmark measured: latencies and errors of many calls, and how they are printed.
//
//   LatencyHistogram latencies;
//   latencies.Record(absl::Microseconds(730));
//   latencies.Percentile(99.9);   // at most 0.8 % above what it was

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_RESULTS_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_RESULTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan::cli {

// Latencies, counted in buckets that are narrow everywhere.
//
// Log-linear buckets as in G. Tene's HdrHistogram: each power of two nanoseconds is cut into 128
// equal parts, so that a bucket is no wider than 1/128 of what it holds; below 128 ns a bucket is
// one nanosecond. 57 KiB, whatever is recorded. Record is thread-safe and takes one atomic
// addition; the rest is for when nobody records.
class LatencyHistogram {
 public:
  LatencyHistogram();

  // A negative latency counts as 0.
  void Record(absl::Duration latency);

  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // Exact; 0 of nothing.
  absl::Duration max() const { return absl::Nanoseconds(max_.load(std::memory_order_relaxed)); }

  // The latency that `percent` (0 .. 100) of all calls do not exceed, or up to 1/128 more; never
  // above max(). 0 without calls.
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

// Sums over any number of runs.
struct BenchResult {
  // Of calls that succeeded.
  LatencyHistogram latencies;
  // Of the others, by code; and the last message of each.
  std::map<absl::StatusCode, uint64_t> errors;
  std::map<absl::StatusCode, std::string> messages;
  // From the end of the warm-up to the last answer.
  absl::Duration measured;

  // Successful calls a second.
  double rate() const {
    return measured > absl::ZeroDuration()
               ? static_cast<double>(latencies.count()) / absl::ToDoubleSeconds(measured)
               : 0;
  }
};

struct BenchRow {
  // "server", "echo", "in process".
  std::string name;
  // Outlives the report.
  const BenchResult* result = nullptr;
};

// What was asked, in a line; a row each; then the errors, by code, with an example.
std::string FormatBenchTable(const std::string& what, const std::vector<BenchRow>& rows);

// An array, an object a row: "name", "calls", "errors" by code, "seconds", "callsPerSecond", and
// "milliseconds" with "p50", "p90", "p99", "p99.9" and "max". Ends in a newline.
std::string FormatBenchJson(const std::vector<BenchRow>& rows);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_RESULTS_H_
