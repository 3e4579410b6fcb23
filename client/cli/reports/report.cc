#include "client/cli/reports/report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/choice.h"
#include "client/cli/output/outcome.h"
#include "client/cli/output/table.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::cli {
namespace {

// The last column but one; a table leaves it out if no plan has a bubble.
enum class Bubble : bool { kLeftOut, kShown };

std::vector<ReportColumn> FigureColumns(Bubble bubble) {
  std::vector<ReportColumn> columns = {
      {"micro-", "batches", Justify::kRight, "microbatches"},
      {"lower", "bound", Justify::kRight, "lower_bound_microbatches"},
      {"bin", "utilization", Justify::kRight, "bin_utilization"},
      {"padding", "removed", Justify::kRight, "padding_removed"},
      {"rank", "imbalance", Justify::kRight, "rank_cost_imbalance"},
      {"step time,", "lockstep", Justify::kRight, "lockstep_step_time"},
      {"step time,", "accumulated", Justify::kRight, "accumulated_step_time"},
      {"above", "bound", Justify::kRight, "step_time_above_bound"},
      {"pipeline", "bubble", Justify::kRight, "pipeline_bubble"},
      {"planning", "time", Justify::kRight, "planning_milliseconds"}};
  if (bubble == Bubble::kLeftOut) columns.erase(columns.end() - 2);
  return columns;
}

ReportCell NumberCell(std::string text, double number) {
  const std::string json = JsonNumber(number);
  return {std::move(text), json, json};
}

// By what share the predicted step time exceeds its lower bound.
double AboveBound(const v1::PlanMetrics& metrics) {
  if (metrics.lower_bound_step_time() <= 0) return 0;
  return metrics.predicted_step_time() / metrics.lower_bound_step_time() - 1;
}

// One cell for each figure column.
std::vector<ReportCell> FigureCells(const Figures& figures, Bubble bubble) {
  const v1::PlanMetrics& metrics = figures.metrics;
  std::vector<ReportCell> cells = {
      CountCell(metrics.microbatches()),
      CountCell(metrics.lower_bound_microbatches()),
      NumberCell(Percent(metrics.bin_utilization()), metrics.bin_utilization()),
      NumberCell(Percent(metrics.padding_removed()), metrics.padding_removed()),
      NumberCell(absl::StrFormat("%.3f", metrics.rank_cost_imbalance()),
                 metrics.rank_cost_imbalance()),
      DecimalCell(figures.step_times.lockstep),
      DecimalCell(figures.step_times.accumulated),
      NumberCell(absl::StrFormat("%.2f%%", 100 * AboveBound(metrics)), AboveBound(metrics)),
      NumberCell(Percent(metrics.pipeline_bubble()), metrics.pipeline_bubble()),
      NumberCell(Milliseconds(figures.planning_milliseconds), figures.planning_milliseconds)};
  if (bubble == Bubble::kLeftOut) cells.erase(cells.end() - 2);
  return cells;
}

Bubble BubbleOf(const Report& report) {
  const bool any = std::any_of(report.rows.begin(), report.rows.end(), [](const ReportRow& row) {
    return row.figures.ok() && row.figures->metrics.pipeline_bubble() > 0;
  });
  return any ? Bubble::kShown : Bubble::kLeftOut;
}

// "lower_snake_case" becomes "lowerCamelCase".
std::string CamelCase(absl::string_view name) {
  std::string camel;
  bool upper = false;
  for (const char c : name) {
    if (c != '_') camel += upper ? absl::ascii_toupper(c) : c;
    upper = c == '_';
  }
  return camel;
}

void AddJsonCells(const std::vector<ReportColumn>& columns, const std::vector<ReportCell>& cells,
                  std::string* json) {
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(json, "\"", CamelCase(columns[i].name), "\":", cells[i].json, ",");
  }
}

absl::StatusOr<std::string> JsonRow(const Report& report, const ReportRow& row) {
  std::string json = "{";
  AddJsonCells(report.before, row.before, &json);
  absl::StrAppend(&json, "\"best\":", row.best ? "true" : "false", ",");
  if (!row.figures.ok()) {
    const absl::Status& why = row.figures.status();
    absl::StrAppend(&json, "\"error\":{\"code\":\"", absl::StatusCodeToString(why.code()),
                    "\",\"message\":", JsonString(why.message()), "}}");
    return json;
  }
  AddJsonCells(FigureColumns(Bubble::kShown), FigureCells(*row.figures, Bubble::kShown), &json);
  AddJsonCells(report.after, row.after, &json);
  const absl::StatusOr<std::string> metrics = ToCompleteJson(row.figures->metrics);
  if (!metrics.ok()) return metrics.status();
  absl::StrAppend(&json, "\"metrics\":", absl::StripAsciiWhitespace(*metrics), "}");
  return json;
}

std::string CsvQuoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string CsvRow(const Report& report, const ReportRow& row) {
  std::vector<std::string> cells;
  for (const ReportCell& cell : row.before) cells.push_back(cell.csv);
  cells.emplace_back(row.best ? "1" : "0");
  if (row.figures.ok()) {
    for (const ReportCell& cell : FigureCells(*row.figures, Bubble::kShown)) {
      cells.push_back(cell.csv);
    }
    for (const ReportCell& cell : row.after) cells.push_back(cell.csv);
    cells.emplace_back();
  } else {
    cells.resize(cells.size() + FigureColumns(Bubble::kShown).size() + report.after.size());
    cells.push_back(CsvQuoted(Explain(row.figures.status())));
  }
  return absl::StrCat(absl::StrJoin(cells, ","), "\n");
}

// All columns of a report, in order.
std::vector<ReportColumn> Columns(const Report& report, Bubble bubble) {
  std::vector<ReportColumn> columns = report.before;
  const std::vector<ReportColumn> figures = FigureColumns(bubble);
  columns.insert(columns.end(), figures.begin(), figures.end());
  columns.insert(columns.end(), report.after.begin(), report.after.end());
  return columns;
}

}  // namespace

ReportCell TextCell(const std::string& text) { return {text, JsonString(text), text}; }

ReportCell CountCell(uint64_t number) {
  const std::string digits = absl::StrCat(number);
  return {WithThousands(number), digits, digits};
}

ReportCell DecimalCell(double number) { return NumberCell(Decimal(number), number); }

std::string FormatReportTable(const Report& report) {
  const Bubble bubble = BubbleOf(report);
  const std::vector<ReportColumn> columns = Columns(report, bubble);
  // The first column marks the best row, the last one a footnote.
  std::vector<Justify> justify = {Justify::kLeft};
  std::vector<std::string> over = {""};
  std::vector<std::string> title = {""};
  for (const ReportColumn& column : columns) {
    justify.push_back(column.justify);
    over.push_back(column.over);
    title.push_back(column.title);
  }
  justify.push_back(Justify::kLeft);
  over.emplace_back();
  title.emplace_back();

  Table table(std::move(justify));
  table.AddRow(std::move(over));
  table.AddRow(std::move(title));
  Footnotes footnotes;
  for (const ReportRow& row : report.rows) {
    std::vector<std::string> cells = {row.best ? "*" : ""};
    for (const ReportCell& cell : row.before) cells.push_back(cell.text);
    if (row.figures.ok()) {
      for (const ReportCell& cell : FigureCells(*row.figures, bubble)) cells.push_back(cell.text);
      for (const ReportCell& cell : row.after) cells.push_back(cell.text);
      cells.emplace_back();
    } else {
      cells.resize(1 + columns.size(), "-");
      cells.push_back(footnotes.Mark(Explain(row.figures.status())));
    }
    table.AddRow(std::move(cells));
  }
  return absl::StrCat(report.title, table.ToString(), "* ", report.legend, "\n",
                      footnotes.ToString());
}

absl::StatusOr<std::string> FormatReportJson(const Report& report) {
  std::vector<std::string> rows;
  for (const ReportRow& row : report.rows) {
    absl::StatusOr<std::string> json = JsonRow(report, row);
    if (!json.ok()) return json.status();
    rows.push_back(*std::move(json));
  }
  return absl::StrCat("[", absl::StrJoin(rows, ",\n "), "]\n");
}

std::string FormatReportCsv(const Report& report) {
  std::vector<std::string> names;
  for (const ReportColumn& column : Columns(report, Bubble::kShown)) names.push_back(column.name);
  names.insert(names.begin() + static_cast<std::ptrdiff_t>(report.before.size()), "best");
  names.emplace_back("error");
  std::string csv = absl::StrCat(absl::StrJoin(names, ","), "\n");
  for (const ReportRow& row : report.rows) absl::StrAppend(&csv, CsvRow(report, row));
  return csv;
}

absl::StatusOr<std::string> FormatReport(const Report& report, const std::string& format) {
  if (format == "json") return FormatReportJson(report);
  if (format == "csv") return FormatReportCsv(report);
  return FormatReportTable(report);
}

absl::Status CheckAnyPlanned(const Report& report) {
  absl::Status first;
  std::vector<std::string> reasons;
  for (const ReportRow& row : report.rows) {
    if (row.figures.ok()) return absl::OkStatus();
    first.Update(row.figures.status());
    const std::string reason(row.figures.status().message());
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(reason);
    }
  }
  return {first.code(), absl::StrJoin(reasons, "\n  ")};
}

void ReportFlags::AddTo(CLI::App* app, bool html) {
  std::vector<std::string> formats = {"table", "json", "csv"};
  if (html) formats.emplace_back("html");
  app->add_option("--pass", pass, "The pass of --request to show figures of [the first]")
      ->type_name("NAME")
      ->group("Output");
  app->add_option("--format", format,
                  absl::StrCat("table; json, an object a row; csv, a line a row",
                               html ? "; html, a page with pictures" : "", " [table]"))
      ->check(OneOf(formats))
      ->type_name("NAME")
      ->group("Output");
}

ExitCode PrintReport(const char* command, const Report& report, const std::string& format) {
  if (absl::Status planned = CheckAnyPlanned(report); !planned.ok()) {
    return ReportError(command, planned);
  }
  return PrintOrReport(command, FormatReport(report, format));
}

}  // namespace batchplan::cli
