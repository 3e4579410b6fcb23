#include "client/cli/sweep_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/request_summary.h"
#include "client/cli/table.h"

namespace batchplan::cli {
Report ReportSweep(const v1::PlanBatchRequest& request, const std::vector<SweepPoint>& points) {
  Report report;
  Table title({Justify::kLeft, Justify::kLeft});
  title.AddRow({"batch", BatchLine(request.manifest())});
  title.AddRow({"preset", PresetLine(request)});
  report.title = absl::StrCat(title.ToString(), "\n");
  report.before = {{"", "budget", Justify::kRight, "budget"},
                   {"", "DP", Justify::kRight, "data_parallel"},
                   {"", "CP", Justify::kRight, "context_parallel"},
                   {"", "GPUs", Justify::kRight, "gpus"}};
  report.after = {{"step time", "/ CP", Justify::kRight, "step_time_per_context_rank"},
                  {"GPU time", "/ token", Justify::kRight, "gpu_time_per_token"}};
  for (const SweepPoint& point : points) {
    ReportRow row{.before = {CountCell(point.budget), CountCell(point.data_parallel),
                             CountCell(point.context_parallel), DecimalCell(point.gpus)},
                  .figures = point.figures,
                  .after = {},
                  .best = point.best};
    if (point.figures.ok()) {
      row.after = {DecimalCell(StepTimePerContextRank(point)), DecimalCell(GpuTimePerToken(point))};
    }
    report.rows.push_back(std::move(row));
  }
  report.legend = absl::StrCat("least GPU time a true token: predicted step time (",
                               SynchronizationName(request), ") x DP / true tokens");
  return report;
}

}  // namespace batchplan::cli
