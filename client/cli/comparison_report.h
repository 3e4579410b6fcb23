// A comparison as a report.

#ifndef BATCHPLAN_CLIENT_CLI_COMPARISON_REPORT_H_
#define BATCHPLAN_CLIENT_CLI_COMPARISON_REPORT_H_

#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/comparison.h"
#include "client/cli/report.h"

namespace batchplan::cli {

// A row a candidate, in the comparison's order. The columns of its own are `kind` (preset, packer
// or scan) and `candidate`. `request` is the one compared for, `pass` the position of its pass.
Report ReportComparison(const v1::PlanBatchRequest& request, int pass,
                        const std::vector<ComparisonRow>& rows);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_COMPARISON_REPORT_H_
