// The rules of a request that ranks may wait for, and the request without each of them.

#ifndef BATCHPLAN_SERVER_EXPLAIN_REQUEST_RULES_H_
#define BATCHPLAN_SERVER_EXPLAIN_REQUEST_RULES_H_

#include <cstddef>
#include <vector>

#include "server/explain/explanation.h"
#include "server/explain/planned_pass.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::explain {

// What is asked of one pass, from which rules can be taken away. Views the manifest's arrays.
struct Request {
  Manifest manifest;
  PlanOptions options;
  PlannedMiniBatches mini_batches;
};

// The rules that pass number `pass` keeps, in the order in which they are given up: each bound is
// then one of the rules that are left.
std::vector<Cause> RulesOf(const Request& request, size_t pass);

// Takes a rule away from a request that has it. Every plan for the request before is one for the
// request after.
void GiveUp(Cause rule, const PassPlan& plan, Request& request);

// The same request for ranks that are no pipelines.
void GiveUpPipeline(Request& request);

}  // namespace batchplan::explain

#endif  // BATCHPLAN_SERVER_EXPLAIN_REQUEST_RULES_H_
