// A sweep as a report.

#ifndef BATCHPLAN_CLIENT_CLI_SWEEP_REPORT_H_
#define BATCHPLAN_CLIENT_CLI_SWEEP_REPORT_H_

#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/report.h"
#include "client/cli/sweep.h"

namespace batchplan::cli {

// A row a point, in the sweep's order. The columns of its own are `budget`, `data_parallel`,
// `context_parallel` and `gpus` before the figures, and behind them `step_time_per_context_rank`
// and `gpu_time_per_token`. `request` is the one swept for.
Report ReportSweep(const v1::PlanBatchRequest& request, const std::vector<SweepPoint>& points);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_SWEEP_REPORT_H_
