// A generated request in its form on the wire.

#ifndef BATCHPLAN_TESTS_SUPPORT_WIRE_REQUEST_H_
#define BATCHPLAN_TESTS_SUPPORT_WIRE_REQUEST_H_

#include "batchplan/v1/batch_planner.pb.h"
#include "tests/support/generated_request.h"

namespace batchplan::testing {

// Sets every field, so that no preset matters to ParseRequest. In later passes, leaves out what the
// first pass decides.
v1::PlanBatchRequest WireRequest(const GeneratedRequest& request);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_WIRE_REQUEST_H_
