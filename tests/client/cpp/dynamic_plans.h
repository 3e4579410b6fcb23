// Plans with context-parallel groups that differ in size, for tests of their readers.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_DYNAMIC_PLANS_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_DYNAMIC_PLANS_H_

#include <cstdint>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// Plans the request's first pass by a rule that uses all sizes. A slot begins with a group of the
// whole pool, or of the next smaller size than the slot before, and is filled up with smaller
// groups. Each group gets the longest sequences that fit; groups for which none is left are empty.
// Rows are padded if they must be as wide as their capacity. The request must have dynamic_context,
// and every sequence must fit the pool.
v1::PlanBatchResponse DynamicPlanOf(const v1::PlanBatchRequest& request);

// What rank `rank` of the pool runs of such a plan, as in the answer to a worker with its own
// slice.
v1::PlanBatchResponse SliceOf(const v1::PlanBatchResponse& plan, uint32_t rank);

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_DYNAMIC_PLANS_H_
