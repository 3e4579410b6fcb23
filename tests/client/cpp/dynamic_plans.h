// Plans with context-parallel groups that differ in size, for tests of what reads them.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_DYNAMIC_PLANS_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_DYNAMIC_PLANS_H_

#include <cstdint>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// A plan of the request's first pass by a rule that uses every size in turn: a slot begins with a
// group of the whole pool, or of the next smaller size than the slot before, is filled up with
// smaller ones, and each group takes the longest sequences that fit. Groups for which nothing is
// left are empty. Rows are padded if they are to be as wide as their capacity. The request has
// dynamic_context, and no sequence is longer than the pool holds.
v1::PlanBatchResponse DynamicPlanOf(const v1::PlanBatchRequest& request);

// What rank `rank` of the pool runs of such a plan, as a worker gets that asks for its own slice.
v1::PlanBatchResponse SliceOf(const v1::PlanBatchResponse& plan, uint32_t rank);

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_DYNAMIC_PLANS_H_
