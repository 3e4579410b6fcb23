#include "client/cli/report_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/output.h"

namespace batchplan::cli {

void ReportFlags::AddTo(CLI::App* app) {
  app->add_option("--pass", pass, "The pass of --request to show figures of [the first]")
      ->type_name("NAME")
      ->group("Output");
  app->add_option("--format", format, "table; json, an object a row; csv, a line a row [table]")
      ->check(CLI::IsMember({"table", "json", "csv"}).description(""))
      ->type_name("NAME")
      ->group("Output");
}

ExitCode PrintReport(const char* command, const Report& report, const std::string& format) {
  if (absl::Status planned = CheckAnyPlanned(report); !planned.ok()) {
    return ReportError(command, planned);
  }
  const absl::StatusOr<std::string> text = FormatReport(report, format);
  if (!text.ok()) return ReportError(command, text.status());
  return ReportError(command, WriteToStdout(*text));
}

}  // namespace batchplan::cli
