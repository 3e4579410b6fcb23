// What the scripts of the pages draw a plan from: plan_view.js, and those that it needs.

#ifndef BATCHPLAN_SERVER_PAGES_PLAN_DATA_H_
#define BATCHPLAN_SERVER_PAGES_PLAN_DATA_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/pages/page.h"
#include "server/planner/options.h"

namespace batchplan {

struct PlanOrigin {
  // "in process", or the server's address.
  std::string where;
  // The plan checker has proved it.
  bool verified = false;
};

// The request without its manifest, whose lengths the plan has too, and with what it left to
// defaults and preset where a page's script depends on it: topology, synchronization, and which
// layout each pass has. `options` are the request's, complete.
v1::PlanBatchRequest ShownRequest(const v1::PlanBatchRequest& request, const PlanOptions& options);

// "request", "response" and "origin" of a plan, about 12 bytes a sequence. The scripts trust the
// arrays that they are given: the response must be a plan for the request. Internal if a message
// can't be written as JSON, which a valid one can.
absl::StatusOr<std::vector<PageData>> PlanData(const v1::PlanBatchRequest& request,
                                               const PlanOptions& options,
                                               const v1::PlanBatchResponse& response,
                                               const PlanOrigin& origin);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PAGES_PLAN_DATA_H_
