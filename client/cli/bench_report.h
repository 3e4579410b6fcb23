// What a benchmark measured, printed.

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_REPORT_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "client/cli/bench_load.h"

namespace batchplan::cli {

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

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_REPORT_H_
