#include "client/python/core/page.h"

#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/pages/plan_page.h"

namespace batchplan::python {

std::string FormatPlanPage(const std::string& request_json, const std::string& response_json,
                           const std::string& where) {
  v1::PlanBatchRequest request;
  Check(FromJson(request_json, &request));
  v1::PlanBatchResponse response;
  Check(FromJson(response_json, &response));
  // The plan says which costs it is made for.
  const ParsedRequest parsed = Get(ParseRequestWithoutCosts(request));
  return Get(PlanPage(request, parsed.options, response, {.where = where}));
}

}  // namespace batchplan::python
