// What `compare` and `sweep` let their user say about the report, and how they end with it.

#ifndef BATCHPLAN_CLIENT_CLI_REPORT_FLAGS_H_
#define BATCHPLAN_CLIENT_CLI_REPORT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "client/cli/exit_code.h"
#include "client/cli/report.h"

namespace batchplan::cli {

// Must outlive the parse.
struct ReportFlags {
  // The pass whose figures are shown; empty: the first.
  std::string pass;
  std::string format = "table";

  // Adds --pass and --format; with `html`, a format that the command prints itself.
  void AddTo(CLI::App* app, bool html = false);
};

// Prints the report; or, if no row was planned, why, on stderr.
ExitCode PrintReport(const char* command, const Report& report, const std::string& format);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REPORT_FLAGS_H_
