#include "client/cli/reports/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/input/request_input.h"
#include "client/cli/output/request_summary.h"
#include "client/cli/output/table.h"
#include "proto/batchplan/v1/convert.h"
#include "server/planner/request/options.h"

namespace batchplan::cli {
namespace {

std::vector<uint32_t> OrOwn(const std::vector<uint32_t>& values, uint32_t own) {
  return values.empty() ? std::vector<uint32_t>{own} : values;
}

// The contract reads a parallel size of 0 as 1.
uint32_t Size(uint32_t wire) { return std::max<uint32_t>(1, wire); }

double Ranks(const SweepPoint& point) {
  return 1.0 * point.data_parallel * point.context_parallel * point.pipeline_parallel;
}

bool Divides(const SweepPoint& point, uint32_t gpus) { return std::fmod(gpus, point.gpus) == 0; }

// All combinations of the axes, not planned yet, with budgets as given.
std::vector<SweepPoint> Points(const v1::PlanBatchRequest& request, const SweepAxes& axes,
                               int pass) {
  const v1::Topology& own = request.topology();
  std::vector<SweepPoint> points = {{.figures = absl::UnknownError("not planned")}};
  // Replaces the points by their combinations with `values` in one of their sizes.
  const auto combine = [&](uint32_t SweepPoint::*size, const std::vector<uint32_t>& values,
                           uint32_t own_value) {
    std::vector<SweepPoint> combined;
    for (const SweepPoint& point : points) {
      for (const uint32_t value : OrOwn(values, own_value)) {
        combined.push_back(point);
        combined.back().*size = value;
      }
    }
    points = std::move(combined);
  };
  combine(&SweepPoint::budget, axes.budgets, request.passes(pass).max_tokens_per_microbatch());
  combine(&SweepPoint::data_parallel, axes.gpus ? std::vector<uint32_t>{1} : axes.data_parallel,
          own.data_parallel());
  combine(&SweepPoint::context_parallel, axes.context_parallel, own.context_parallel());
  combine(&SweepPoint::pipeline_parallel, axes.pipeline_parallel, own.pipeline_parallel());
  combine(&SweepPoint::virtual_pipeline, axes.virtual_pipeline, own.virtual_pipeline());
  for (SweepPoint& point : points) {
    for (uint32_t SweepPoint::*const size :
         {&SweepPoint::data_parallel, &SweepPoint::context_parallel, &SweepPoint::pipeline_parallel,
          &SweepPoint::virtual_pipeline}) {
      point.*size = Size(point.*size);
    }
    point.gpus = Ranks(point) * Size(own.tensor_parallel());
  }
  // Without a pipeline the only chunk is the whole model.
  if (axes.virtual_pipeline.size() > 1) {
    std::erase_if(points, [&](const SweepPoint& point) {
      return point.pipeline_parallel == 1 &&
             point.virtual_pipeline != Size(axes.virtual_pipeline[0]);
    });
  }
  if (axes.gpus) {
    std::erase_if(points, [&](const SweepPoint& point) { return !Divides(point, *axes.gpus); });
    for (SweepPoint& point : points) {
      point.data_parallel = static_cast<uint32_t>(*axes.gpus / point.gpus);
      point.gpus = *axes.gpus;
    }
  }
  return points;
}

// Scales the budget from one GPU to the CP GPUs that share a micro-batch.
absl::Status ScaleBudget(SweepPoint* point) {
  const uint64_t budget = uint64_t{point->budget} * point->context_parallel;
  if (budget > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a budget of ", point->budget, " a GPU times context_parallel ", point->context_parallel,
        " is ", budget, " tokens; the limit is ", std::numeric_limits<uint32_t>::max()));
  }
  point->budget = static_cast<uint32_t>(budget);
  return absl::OkStatus();
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
  for (const size_t size : {budgets.size(), data_parallel.size(), context_parallel.size(),
                            pipeline_parallel.size(), virtual_pipeline.size()}) {
    points *= std::max<size_t>(1, size);
  }
  return points;
}

double GpuTimePerToken(const SweepPoint& point) {
  const v1::PlanMetrics& metrics = point.figures->metrics;
  return metrics.predicted_step_time() * Ranks(point) /
         static_cast<double>(std::max<uint64_t>(1, metrics.true_tokens()));
}

v1::PlanBatchRequest WithOneYardstick(const v1::PlanBatchRequest& request, const SweepAxes& axes) {
  v1::PlanBatchRequest changed = request;
  const std::vector<uint32_t> stages =
      OrOwn(axes.pipeline_parallel, request.topology().pipeline_parallel());
  const uint32_t most_stages = Size(*std::max_element(stages.begin(), stages.end()));
  changed.mutable_topology()->set_pipeline_parallel(most_stages);
  if (most_stages == 1) return changed;
  if (!changed.has_cost_model()) {
    *changed.mutable_cost_model() = DefaultCosts(changed.topology());
  }
  v1::PlanBatchRequest pipeline;
  pipeline.mutable_topology()->set_pipeline_parallel(2);
  const PlanOptions defaults = ParseRequest(pipeline).value().options;
  if (changed.synchronization() == v1::SYNCHRONIZATION_UNSPECIFIED) {
    changed.set_synchronization(defaults.synchronization == Synchronization::kLockstep
                                    ? v1::SYNCHRONIZATION_LOCKSTEP
                                    : v1::SYNCHRONIZATION_ACCUMULATED);
  }
  return changed;
}

std::vector<std::string> LeftOut(const v1::PlanBatchRequest& request, const SweepAxes& axes) {
  std::vector<std::string> left_out;
  if (!axes.gpus) return left_out;
  SweepAxes all = axes;
  all.gpus.reset();
  all.budgets = {1};
  all.data_parallel = {1};
  all.virtual_pipeline = {1};
  for (const SweepPoint& point : Points(request, all, 0)) {
    if (Divides(point, *axes.gpus)) continue;
    v1::Topology sizes;
    sizes.set_context_parallel(point.context_parallel);
    sizes.set_tensor_parallel(request.topology().tensor_parallel());
    sizes.set_pipeline_parallel(point.pipeline_parallel);
    // Behind "DP 1 x ".
    std::string name = TopologyLine(sizes).substr(7);
    if (std::ranges::find(left_out, name) == left_out.end()) left_out.push_back(std::move(name));
  }
  return left_out;
}

std::vector<SweepPoint> Sweep(const Client& client, const v1::PlanBatchRequest& request,
                              const SweepAxes& axes, int pass) {
  std::vector<SweepPoint> points = Points(request, axes, pass);
  const v1::PlanBatchRequest common = WithOneYardstick(request, axes);
  v1::PlanBatchRequest changed = common;
  uint32_t most_chunks = 1;
  for (const SweepPoint& point : points)
    most_chunks = std::max(most_chunks, point.virtual_pipeline);
  for (SweepPoint& point : points) {
    if (axes.budgets_per_gpu) {
      if (const absl::Status scaled = ScaleBudget(&point); !scaled.ok()) {
        point.figures = scaled;
        continue;
      }
    }
    changed.mutable_passes(pass)->set_max_tokens_per_microbatch(point.budget);
    v1::Topology* topology = changed.mutable_topology();
    topology->set_data_parallel(point.data_parallel);
    topology->set_context_parallel(point.context_parallel);
    topology->set_pipeline_parallel(point.pipeline_parallel);
    topology->set_virtual_pipeline(point.virtual_pipeline);
    if (point.pipeline_parallel == 1) {
      changed.clear_pipeline();
    } else if (common.has_pipeline()) {
      *changed.mutable_pipeline() = common.pipeline();
      // A schedule without chunks has no use for these options of the interleaved one.
      if (point.virtual_pipeline == 1 && most_chunks > 1) {
        changed.mutable_pipeline()->clear_schedule();
        changed.mutable_pipeline()->clear_group_size();
      }
    }
    point.figures = PlanFigures(client, changed, pass);
  }
  MarkBest(&points);
  return points;
}

Report ReportSweep(const v1::PlanBatchRequest& request, const SweepAxes& axes,
                   const std::vector<SweepPoint>& points) {
  Report report;
  Table title({Justify::kLeft, Justify::kLeft});
  title.AddRow({"batch", BatchLine(request.manifest())});
  title.AddRow({"preset", PresetLine(request)});
  report.title = absl::StrCat(title.ToString(), "\n");
  report.before = {{"", "budget", Justify::kRight, "budget"},
                   {"", "DP", Justify::kRight, "data_parallel"},
                   {"", "CP", Justify::kRight, "context_parallel"},
                   {"", "PP", Justify::kRight, "pipeline_parallel"},
                   {"", "VPP", Justify::kRight, "virtual_pipeline"},
                   {"", "GPUs", Justify::kRight, "gpus"}};
  report.after = {{"GPU time", "/ token", Justify::kRight, "gpu_time_per_token"}};
  for (const SweepPoint& point : points) {
    ReportRow row{.before = {CountCell(point.budget), CountCell(point.data_parallel),
                             CountCell(point.context_parallel), CountCell(point.pipeline_parallel),
                             CountCell(point.virtual_pipeline), DecimalCell(point.gpus)},
                  .figures = point.figures,
                  .after = {},
                  .best = point.best};
    if (point.figures.ok()) row.after = {DecimalCell(GpuTimePerToken(point))};
    report.rows.push_back(std::move(row));
  }
  report.legend = absl::StrCat("least GPU time a true token: predicted step time (",
                               SynchronizationName(request), ") x DP x CP x PP / true tokens");
  if (const std::vector<std::string> left_out = LeftOut(request, axes); !left_out.empty()) {
    absl::StrAppend(&report.legend, "\nleft out, as they do not divide ", Count(*axes.gpus, "GPU"),
                    ": ", absl::StrJoin(left_out, ", "));
  }
  return report;
}

}  // namespace batchplan::cli
