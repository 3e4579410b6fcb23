// A generated request as the wire carries it.

#ifndef BATCHPLAN_TESTS_SUPPORT_WIRE_REQUEST_H_
#define BATCHPLAN_TESTS_SUPPORT_WIRE_REQUEST_H_

#include "batchplan/v1/batch_planner.pb.h"
#include "tests/support/generated_request.h"

namespace batchplan::testing {

// Sets every field, so that no preset has a say in what ParseRequest reads of it; but nothing of a
// later pass that the first one decides.
v1::PlanBatchRequest WireRequest(const GeneratedRequest& request);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_WIRE_REQUEST_H_
