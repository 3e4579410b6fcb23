#include "client/cli/report_flags.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output.h"

namespace batchplan::cli {

void ReportFlags::AddTo(CLI::App* app, bool html) {
  std::vector<std::string> formats = {"table", "json", "csv"};
  if (html) formats.emplace_back("html");
  app->add_option("--pass", pass, "The pass of --request to show figures of [the first]")
      ->type_name("NAME")
      ->group("Output");
  app->add_option("--format", format,
                  absl::StrCat("table; json, an object a row; csv, a line a row",
                               html ? "; html, a page with pictures" : "", " [table]"))
      ->check(CLI::IsMember(formats).description(""))
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
