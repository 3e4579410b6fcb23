#include "client/cli/comparison_report.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/request_summary.h"
#include "client/cli/table.h"

namespace batchplan::cli {

Report ReportComparison(const v1::PlanBatchRequest& request, int pass,
                        const std::vector<ComparisonRow>& rows) {
  Report report;
  Table title({Justify::kLeft, Justify::kLeft});
  title.AddRow({"batch", BatchLine(request.manifest())});
  title.AddRow({"job size", TopologyLine(request.topology())});
  title.AddRow(
      {"budget", absl::StrCat(Count(request.passes(pass).max_tokens_per_microbatch(), "token"),
                              " a micro-batch")});
  report.title = absl::StrCat(title.ToString(), "\n");
  report.before = {{"", "", Justify::kLeft, "kind"},
                   {"", "candidate", Justify::kLeft, "candidate"}};
  for (const ComparisonRow& row : rows) {
    report.rows.push_back(
        {.before = {TextCell(KindName(row.candidate.kind)), TextCell(row.candidate.name)},
         .figures = row.figures,
         .after = {},
         .best = row.best});
  }
  report.legend = absl::StrCat("least predicted step time, ", SynchronizationName(request));
  return report;
}

}  // namespace batchplan::cli
