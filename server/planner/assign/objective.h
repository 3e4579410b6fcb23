// What the balanced solver evens out.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_OBJECTIVE_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_OBJECTIVE_H_

#include <cstdint>
#include <vector>

#include "server/planner/items.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// A packed micro-batch's load is the sum over its items and a part that all have alike.
struct Objective {
  std::vector<uint64_t> loads;  // of each item
  uint64_t per_microbatch = 0;
  // Whether loads are costs as they stand.
  bool is_cost = false;
};

// Cost, or tokens where the pass is balanced on these. Where rows are as wide as the longest or the
// budget, the linear part of the cost is the same for every row, and only the quadratic part is
// left to even out; rows padded to buckets are taken for unpadded ones.
Objective ObjectiveOf(const PassInstance& pass, const Items& items);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_OBJECTIVE_H_
