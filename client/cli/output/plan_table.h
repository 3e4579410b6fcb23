// A plan for people: the batch and the job in a few lines, the metrics with their units, and how
// the work came to lie on the ranks. Plain ASCII, without colours, so that it reads the same in a
// terminal and in a log.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_TABLE_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_TABLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/explain/plan_sentences.h"
#include "server/pages/plan_page.h"
#include "server/planner/request/options.h"

namespace batchplan::cli {

// `options` are the request's, complete; `sentences` say why ranks wait, or why that can't be said.
// InvalidArgument if the response is not a plan for the options.
absl::StatusOr<std::string> FormatPlanTable(const v1::PlanBatchRequest& request,
                                            const PlanOptions& options,
                                            const v1::PlanBatchResponse& response,
                                            const PlanOrigin& origin,
                                            const absl::StatusOr<PlanSentences>& sentences);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_TABLE_H_
