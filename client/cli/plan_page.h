// A plan, maybe from elsewhere, as a page for the browser.

#ifndef BATCHPLAN_CLIENT_CLI_PLAN_PAGE_H_
#define BATCHPLAN_CLIENT_CLI_PLAN_PAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/pages/plan_page.h"
#include "server/planner/options.h"

namespace batchplan::cli {

// One HTML file that needs nothing else. `options` are the request's, complete. Its size is about
// 12 bytes a sequence. InvalidArgument if the response is not a plan for them.
absl::StatusOr<std::string> FormatPlanPage(const v1::PlanBatchRequest& request,
                                           const PlanOptions& options,
                                           const v1::PlanBatchResponse& response,
                                           const PlanOrigin& origin);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_PLAN_PAGE_H_
