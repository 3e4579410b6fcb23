// One batch planned at every combination of token budget, DP and CP: what `batchplan sweep` finds
// out, as a report.

#ifndef BATCHPLAN_CLIENT_CLI_REPORTS_SWEEP_H_
#define BATCHPLAN_CLIENT_CLI_REPORTS_SWEEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/reports/figures.h"
#include "client/cli/reports/report.h"

namespace batchplan::cli {

// The values to combine; an empty list is the request's own value.
struct SweepAxes {
  std::vector<uint32_t> budgets;
  std::vector<uint32_t> data_parallel;
  std::vector<uint32_t> context_parallel;

  // How many combinations there are, at least 1.
  uint64_t Points() const;
};

struct SweepPoint {
  uint32_t budget = 0;
  uint32_t data_parallel = 1;
  uint32_t context_parallel = 1;
  // DP x CP x TP x PP.
  double gpus = 1;
  // Or why the planner refused.
  absl::StatusOr<Figures> figures;
  // The one with the least GpuTimePerToken; among equals, the one with fewer micro-batches, then
  // the earlier. No point is best if all are refused.
  bool best = false;
};

// What a true token takes of all GPUs, waiting and padding included, in the cost model's units. A
// predicted step time is the whole compute of a data-parallel rank, which its CP x TP x PP GPUs are
// taken to divide evenly, so that this is predicted step time x DP / true tokens, and comparable
// between any two points. `point` has figures.
double GpuTimePerToken(const SweepPoint& point);

// Predicted step time / CP: which point ends a step first, taken that CP divides it evenly. `point`
// has figures.
double StepTimePerContextRank(const SweepPoint& point);

// Plans `request` at every combination, one after the other: budgets outermost, CP innermost. The
// budgets are those of the pass at position `pass` (FindPass), whose figures are taken.
std::vector<SweepPoint> Sweep(const Client& client, const v1::PlanBatchRequest& request,
                              const SweepAxes& axes, int pass);

// A row a point, in the sweep's order. The columns of its own are `budget`, `data_parallel`,
// `context_parallel` and `gpus` before the figures, and behind them `step_time_per_context_rank`
// and `gpu_time_per_token`. `request` is the one swept for.
Report ReportSweep(const v1::PlanBatchRequest& request, const std::vector<SweepPoint>& points);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REPORTS_SWEEP_H_
