// Plans side by side, as a table, as JSON and as CSV. A report brings the columns that tell its
// rows apart; the figures, the mark of the best row and the reasons of refused ones look alike in
// all.

#ifndef BATCHPLAN_CLIENT_CLI_REPORTS_REPORT_H_
#define BATCHPLAN_CLIENT_CLI_REPORTS_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/output/outcome.h"
#include "client/cli/output/table.h"
#include "client/cli/reports/figures.h"

namespace CLI {
class App;
}  // namespace CLI

namespace batchplan::cli {

struct ReportColumn {
  // Its header in the table, in two lines.
  std::string over;
  std::string title;
  Justify justify = Justify::kRight;
  // Its name in CSV, in lower_snake_case; in JSON the same in lowerCamelCase.
  std::string name;
};

struct ReportCell {
  // In the table.
  std::string text;
  // As a JSON value; in CSV the same, a string without its quotes.
  std::string json;
  std::string csv;
};

ReportCell TextCell(const std::string& text);
ReportCell CountCell(uint64_t number);
// In the table as Decimal(number); elsewhere with all digits.
ReportCell DecimalCell(double number);

struct ReportRow {
  // One a column before the figures.
  std::vector<ReportCell> before;
  absl::StatusOr<Figures> figures;
  // One a column behind the figures; none if there are no figures.
  std::vector<ReportCell> after;
  bool best = false;
};

struct Report {
  // Lines above the table.
  std::string title;
  std::vector<ReportColumn> before;
  std::vector<ReportColumn> after;
  std::vector<ReportRow> rows;
  // A line under the table: what makes the row with the * the best.
  std::string legend;
};

// The columns between `before` and `after` are those of the figures: micro-batches and their lower
// bound, bin utilization, padding removed, rank imbalance in cost, step time under both
// synchronizations and, under the request's, the part by which it exceeds its lower bound, the
// pipeline's bubble where any row has one, planning time. A refused row shows "-" in them, and
// points to its reason.
std::string FormatReportTable(const Report& report);

// One array, a line a row: an object of the columns by their names, "best", and "metrics", the
// PlanMetrics in protobuf's JSON. A refused row has "error": {"code", "message"} instead of
// figures.
absl::StatusOr<std::string> FormatReportJson(const Report& report);

// A header line and a line a row: `before`, best (1 or 0), the figures, `after`, error. A refused
// row has empty cells, and its reason in `error`.
std::string FormatReportCsv(const Report& report);

// "table", "json" or "csv".
absl::StatusOr<std::string> FormatReport(const Report& report, const std::string& format);

// OK if there is a row that was planned. Otherwise all distinct reasons, with the code of the
// first. There is at least one row.
absl::Status CheckAnyPlanned(const Report& report);

// What `compare` and `sweep` let their user say about the report. Must outlive the parse.
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

#endif  // BATCHPLAN_CLIENT_CLI_REPORTS_REPORT_H_
