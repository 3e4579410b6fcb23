#include "client/cli/reports/sweep.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output/request_summary.h"
#include "client/cli/output/table.h"

namespace batchplan::cli {
namespace {

std::vector<uint32_t> OrOwn(const std::vector<uint32_t>& values, uint32_t own) {
  return values.empty() ? std::vector<uint32_t>{own} : values;
}

// The contract reads a parallel size of 0 as 1.
uint32_t Size(uint32_t wire) { return std::max<uint32_t>(1, wire); }

SweepPoint PlanPoint(const Client& client, const v1::PlanBatchRequest& request, int pass) {
  const v1::Topology& topology = request.topology();
  SweepPoint point{.budget = request.passes(pass).max_tokens_per_microbatch(),
                   .data_parallel = Size(topology.data_parallel()),
                   .context_parallel = Size(topology.context_parallel()),
                   .figures = PlanFigures(client, request, pass)};
  point.gpus = 1.0 * point.data_parallel * point.context_parallel *
               Size(topology.tensor_parallel()) * Size(topology.pipeline_parallel());
  return point;
}

bool IsBetterPoint(const SweepPoint& a, const SweepPoint& b) {
  if (GpuTimePerToken(a) != GpuTimePerToken(b)) return GpuTimePerToken(a) < GpuTimePerToken(b);
  return a.figures->metrics.microbatches() < b.figures->metrics.microbatches();
}

void MarkBest(std::vector<SweepPoint>* points) {
  SweepPoint* best = nullptr;
  for (SweepPoint& point : *points) {
    if (point.figures.ok() && (best == nullptr || IsBetterPoint(point, *best))) best = &point;
  }
  if (best != nullptr) best->best = true;
}

}  // namespace

uint64_t SweepAxes::Points() const {
  uint64_t points = 1;
  for (const size_t size : {budgets.size(), data_parallel.size(), context_parallel.size()}) {
    points *= std::max<size_t>(1, size);
  }
  return points;
}

double GpuTimePerToken(const SweepPoint& point) {
  const v1::PlanMetrics& metrics = point.figures->metrics;
  return metrics.predicted_step_time() * point.data_parallel /
         static_cast<double>(std::max<uint64_t>(1, metrics.true_tokens()));
}

double StepTimePerContextRank(const SweepPoint& point) {
  return point.figures->metrics.predicted_step_time() / point.context_parallel;
}

std::vector<SweepPoint> Sweep(const Client& client, const v1::PlanBatchRequest& request,
                              const SweepAxes& axes, int pass) {
  const v1::Topology& own = request.topology();
  v1::PlanBatchRequest changed = request;
  std::vector<SweepPoint> points;
  for (const uint32_t budget :
       OrOwn(axes.budgets, request.passes(pass).max_tokens_per_microbatch())) {
    changed.mutable_passes(pass)->set_max_tokens_per_microbatch(budget);
    for (const uint32_t data_parallel : OrOwn(axes.data_parallel, own.data_parallel())) {
      changed.mutable_topology()->set_data_parallel(data_parallel);
      for (const uint32_t context_parallel : OrOwn(axes.context_parallel, own.context_parallel())) {
        changed.mutable_topology()->set_context_parallel(context_parallel);
        points.push_back(PlanPoint(client, changed, pass));
      }
    }
  }
  MarkBest(&points);
  return points;
}

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
