#include "client/cli/bench_report.h"

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/table.h"
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
