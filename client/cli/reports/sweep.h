// One batch planned at every combination of token budget, DP, CP, PP and VPP: what `batchplan
// sweep` finds out, as a report.

#ifndef BATCHPLAN_CLIENT_CLI_REPORTS_SWEEP_H_
#define BATCHPLAN_CLIENT_CLI_REPORTS_SWEEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/reports/figures.h"
#include "client/cli/reports/report.h"

namespace batchplan::cli {

// The values to combine; an empty list is the request's own value.
struct SweepAxes {
  std::vector<uint32_t> budgets = {};
  // Whether budgets are of one GPU: a micro-batch holds CP times as many tokens.
  bool budgets_per_gpu = false;
  std::vector<uint32_t> data_parallel = {};
  std::vector<uint32_t> context_parallel = {};
  std::vector<uint32_t> pipeline_parallel = {};
  std::vector<uint32_t> virtual_pipeline = {};
  // Set: DP is gpus / (CP x TP x PP), points where that is no whole number are left out, and
  // data_parallel is empty.
  std::optional<uint32_t> gpus = std::nullopt;

  // How many combinations there are, at least 1.
  uint64_t Points() const;
};

struct SweepPoint {
  uint32_t budget = 0;
  uint32_t data_parallel = 1;
  uint32_t context_parallel = 1;
  uint32_t pipeline_parallel = 1;
  uint32_t virtual_pipeline = 1;
  // DP x CP x TP x PP.
  double gpus = 1;
  // Or why the planner refused.
  absl::StatusOr<Figures> figures;
  // The one with the least GpuTimePerToken; among equals, the one with fewer micro-batches, then
  // the earlier. No point is best if all are refused.
  bool best = false;
};

// What a true token takes of all ranks, waiting and padding included, in the cost model's units:
// predicted step time x DP x CP x PP / true tokens. A predicted step time is what one of these
// ranks takes, all of which are busy or wait as long, so that this compares any two points. The
// GPUs of TP are one rank. `point` has figures.
double GpuTimePerToken(const SweepPoint& point);

// `request` so that points with and without a pipeline compare: where one of them has more than one
// stage, what is left out is for all as it is with a pipeline, the cost model and the
// synchronization.
v1::PlanBatchRequest WithOneYardstick(const v1::PlanBatchRequest& request, const SweepAxes& axes);

// The sizes of CP, TP and PP that do not divide `axes.gpus`, as in "CP 3 x PP 2", each once.
std::vector<std::string> LeftOut(const v1::PlanBatchRequest& request, const SweepAxes& axes);

// Plans `request` at every combination, one after the other: budgets outermost, then DP, CP and PP,
// VPP innermost, of which points without a pipeline have the first alone. Of `axes.gpus`, only at
// those that divide them. The budgets are those of the pass at position `pass` (FindPass), whose
// figures are taken. What `request.pipeline` says is left out without a pipeline, and the schedule
// and its groups where the points have several VPP and this one's is 1.
std::vector<SweepPoint> Sweep(const Client& client, const v1::PlanBatchRequest& request,
                              const SweepAxes& axes, int pass);

// A row a point, in the sweep's order. The columns of its own are `budget`, `data_parallel`,
// `context_parallel`, `pipeline_parallel`, `virtual_pipeline` and `gpus` before the figures, and
// behind them `gpu_time_per_token`. `request` is the one swept for, with one yardstick; what is
// left out is said below.
Report ReportSweep(const v1::PlanBatchRequest& request, const SweepAxes& axes,
                   const std::vector<SweepPoint>& points);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REPORTS_SWEEP_H_
