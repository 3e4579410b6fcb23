// A request as the pages show it.

#ifndef BATCHPLAN_CLIENT_CLI_SHOWN_REQUEST_H_
#define BATCHPLAN_CLIENT_CLI_SHOWN_REQUEST_H_

#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/options.h"

namespace batchplan::cli {

// The request without its manifest, whose lengths the plan has too, and with what it left to
// defaults and preset where a page's script depends on it: topology, synchronization, and which
// layout each pass has. `options` are the request's, complete.
v1::PlanBatchRequest ShownRequest(const v1::PlanBatchRequest& request, const PlanOptions& options);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_SHOWN_REQUEST_H_
