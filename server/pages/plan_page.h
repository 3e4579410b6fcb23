// A plan as a page for the browser: the picture of ranks over time, and the figures beside it.

#ifndef BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_
#define BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/pages/plan_data.h"
#include "server/planner/options.h"

namespace batchplan {

// The page, complete but for its data: see page.h.
absl::string_view PlanPageTemplate();

// One HTML file that needs nothing else, about 12 bytes a sequence. Arguments as for PlanData.
absl::StatusOr<std::string> PlanPage(const v1::PlanBatchRequest& request,
                                     const PlanOptions& options,
                                     const v1::PlanBatchResponse& response,
                                     const PlanOrigin& origin);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PAGES_PLAN_PAGE_H_
