// What the step of a plan consists of, added up micro-batch by micro-batch.

#ifndef BATCHPLAN_SERVER_EXPLAIN_PLAN_TIME_H_
#define BATCHPLAN_SERVER_EXPLAIN_PLAN_TIME_H_

#include <vector>

#include "server/explain/explanation.h"
#include "server/explain/planned_pass.h"
#include "server/planner/plan.h"

namespace batchplan::explain {

// In units of the cost model, over all mini-batches. All but `waiting` are of the mean rank. They
// add up to the predicted step time.
struct PlanTime {
  double ideal = 0;
  // What sequences cost beyond that, wherever they are: exchange, repeated prefixes, larger groups.
  double beyond_ideal = 0;
  // The part of it that is repeated prefixes.
  double repeated = 0;
  double padding = 0;
  // Of slots beyond the fewest.
  double more_slots = 0;
  // On pipelines: what the busiest stage of the slowest rank waits, and what the busiest stage has
  // more to do than the mean one, of a rank with the mean work.
  double bubbles = 0;
  double unequal_stages = 0;
  double waiting = 0;
  // A part of `ideal`: what rounding up lengths takes.
  double aligning = 0;
  std::vector<LoneSequence> lone_sequences;
};

PlanTime TimeOf(const PlannedPass& planned, const PlannedMiniBatches& mini_batches,
                const PassPlan& plan);

}  // namespace batchplan::explain

#endif  // BATCHPLAN_SERVER_EXPLAIN_PLAN_TIME_H_
