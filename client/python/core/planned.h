// A plan as Python reads it: arrays that NumPy views without a copy, and the rest as a message.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_PLANNED_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_PLANNED_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/plan.h"

namespace batchplan::python {

// Shared by the arrays that view it.
class Planned {
 public:
  // `head` is the response without `deferred` and the arrays of its passes, which `plan` has.
  Planned(Plan plan, uint32_t ranks, v1::PlanBatchResponse head)
      : plan_(std::move(plan)), ranks_(ranks), head_(std::move(head)) {}

  const std::vector<PassPlan>& passes() const { return plan_.passes; }
  const std::vector<uint32_t>& deferred() const { return plan_.deferred; }
  // Data-parallel, or those of the pool where context-parallel groups differ in size.
  uint32_t ranks() const { return ranks_; }
  const v1::PlanBatchResponse& head() const { return head_; }

  // The response with all of it.
  v1::PlanBatchResponse ToResponse() const;

 private:
  Plan plan_;
  uint32_t ranks_;
  v1::PlanBatchResponse head_;
};

// The plan that a response carries, for `ranks` ranks. Throws StatusError.
std::shared_ptr<Planned> ReadPlanned(v1::PlanBatchResponse response, uint32_t ranks);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_PLANNED_H_
