#include "client/cli/bench/results.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/output/table.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::cli {
namespace {

struct Percentile {
  const char* name;
  double percent;
};

constexpr std::array kPercentiles = {Percentile{"p50", 50}, Percentile{"p90", 90},
                                     Percentile{"p99", 99}, Percentile{"p99.9", 99.9}};

uint64_t ErrorsOf(const BenchResult& result) {
  uint64_t errors = 0;
  for (const auto& [code, count] : result.errors) errors += count;
  return errors;
}

std::string ShownLatency(absl::Duration latency) {
  return absl::StrFormat("%.3f", absl::ToDoubleMilliseconds(latency));
}

}  // namespace

LatencyHistogram::LatencyHistogram()
    : buckets_(std::make_unique<std::atomic<uint64_t>[]>(kBuckets)) {}

size_t LatencyHistogram::BucketOf(uint64_t nanoseconds) {
  // The first 2^kPartBits values have a bucket each. Above them, each power of two is divided into
  // 2^kPartBits buckets by the bits behind the leading one.
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

std::string FormatBenchTable(const std::string& what, const std::vector<BenchRow>& rows) {
  std::vector<Justify> columns(4 + kPercentiles.size() + 1, Justify::kRight);
  columns.front() = Justify::kLeft;
  Table table(columns);
  std::vector<std::string> head = {"latency in ms", "calls", "errors", "calls/s"};
  for (const Percentile& percentile : kPercentiles) head.emplace_back(percentile.name);
  head.emplace_back("max");
  table.AddRow(head);
  std::string errors;
  for (const BenchRow& row : rows) {
    const BenchResult& result = *row.result;
    std::vector<std::string> cells = {row.name, WithThousands(result.latencies.count()),
                                      WithThousands(ErrorsOf(result)),
                                      absl::StrFormat("%.1f", result.rate())};
    for (const Percentile& percentile : kPercentiles) {
      cells.push_back(ShownLatency(result.latencies.Percentile(percentile.percent)));
    }
    cells.push_back(ShownLatency(result.latencies.max()));
    table.AddRow(cells);
    for (const auto& [code, count] : result.errors) {
      absl::StrAppend(&errors, row.name, ": ", WithThousands(count), " ",
                      absl::StatusCodeToString(code), ", such as: ", result.messages.at(code),
                      "\n");
    }
  }
  return absl::StrCat(what, "\n\n", table.ToString(), errors.empty() ? "" : "\n", errors);
}

std::string FormatBenchJson(const std::vector<BenchRow>& rows) {
  std::vector<std::string> objects;
  for (const BenchRow& row : rows) {
    const BenchResult& result = *row.result;
    std::vector<std::string> errors;
    for (const auto& [code, count] : result.errors) {
      errors.push_back(absl::StrCat(JsonString(absl::StatusCodeToString(code)), ":", count));
    }
    std::vector<std::string> latencies;
    latencies.reserve(kPercentiles.size() + 1);
    for (const Percentile& percentile : kPercentiles) {
      latencies.push_back(absl::StrCat(
          JsonString(percentile.name), ":",
          JsonNumber(absl::ToDoubleMilliseconds(result.latencies.Percentile(percentile.percent)))));
    }
    latencies.push_back(
        absl::StrCat("\"max\":", JsonNumber(absl::ToDoubleMilliseconds(result.latencies.max()))));
    objects.push_back(
        absl::StrCat("{\"name\":", JsonString(row.name), ",\"calls\":", result.latencies.count(),
                     ",\"errors\":{", absl::StrJoin(errors, ","),
                     "},\"seconds\":", JsonNumber(absl::ToDoubleSeconds(result.measured)),
                     ",\"callsPerSecond\":", JsonNumber(result.rate()), ",\"milliseconds\":{",
                     absl::StrJoin(latencies, ","), "}}"));
  }
  return absl::StrCat("[", absl::StrJoin(objects, ","), "]\n");
}

}  // namespace batchplan::cli
