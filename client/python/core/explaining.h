// Why ranks wait in a plan of Python's, wherever that was made.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_EXPLAINING_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_EXPLAINING_H_

#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/messages.h"
#include "server/explain/explanation.h"
#include "server/planner/request/options.h"

namespace batchplan::python {

struct ExplainedPlan {
  // One a pass.
  std::vector<Explanation> passes;
  // Why sequences wait, with a selection.
  std::vector<std::string> deferral;
};

// Of a whole plan for a request, which lacks the arrays of its manifest. Throws StatusError.
ExplainedPlan ExplainPlan(v1::PlanBatchRequest request, const v1::PlanBatchResponse& response,
                          const ManifestArrays& arrays);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_EXPLAINING_H_
