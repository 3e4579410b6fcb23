// Tells metrics and recent plans of answered plans and of measured steps.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_OBSERVERS_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_OBSERVERS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/fitting/measured_step.h"
#include "server/recent/recent_plans.h"
#include "server/rendezvous/joined_plan.h"
#include "server/service/planning/plan_cache.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

// If memory runs out they are not told; the call is still answered.
struct PlanObservers {
  Metrics* metrics = nullptr;
  // Null: none are kept.
  RecentPlans* recent = nullptr;
};

// Tells them that `request` is answered with `plan` after `planning_time`.
void ObservePlan(const PlanObservers& observers, const v1::PlanBatchRequest& request,
                 const std::shared_ptr<const CachedPlan>& plan, absl::Duration planning_time);

// Tells them of the plan of a step that workers joined, each with a request like `request`, whose
// manifest is not read.
void ObserveJoinedPlan(const PlanObservers& observers,
                       const std::shared_ptr<const v1::PlanBatchRequest>& request,
                       const std::shared_ptr<const JoinedPlan>& joined);

// Tells them of the times of a job's step.
void ObserveStep(const PlanObservers& observers, const std::string& job_id, uint64_t step,
                 const MeasuredStep& measured);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_OBSERVERS_H_
