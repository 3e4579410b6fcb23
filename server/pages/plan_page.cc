#include "server/pages/plan_page.h"

#include <vector>

#include "server/pages/page.h"

namespace batchplan {

absl::StatusOr<std::string> PlanPage(const v1::PlanBatchRequest& request,
                                     const PlanOptions& options,
                                     const v1::PlanBatchResponse& response,
                                     const PlanOrigin& origin) {
  const absl::StatusOr<std::vector<PageData>> data = PlanData(request, options, response, origin);
  if (!data.ok()) return data.status();
  return FillPage(PlanPageTemplate(), *data);
}

}  // namespace batchplan
