// How much work a plan is worth.

#ifndef BATCHPLAN_SERVER_PLANNER_EFFORT_H_
#define BATCHPLAN_SERVER_PLANNER_EFFORT_H_

namespace batchplan {

// Counted in steps of each search and of all together (allowance.h), never in time, so that the
// same request gives the same plan on every machine.
enum class Effort { kFast, kDefault, kThorough };

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_EFFORT_H_
