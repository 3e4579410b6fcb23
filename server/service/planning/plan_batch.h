// PlanBatch, apart from gRPC: a request in, a response out.
//
//   absl::StatusOr<PlannedBatch> planned = PlanOrRecall(config, &request, caller);
//   absl::StatusOr<grpc::ByteBuffer> response = planned->plan->Answer(planned->planning_time);
//
// Pure, except for the cache, metrics and logs of the plan checker's failures; any number of calls
// may run at once. Needs the time and memory of MakePlan, and a copy of the plan's arrays; for a
// recalled plan, those of reading and hashing the request.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_BATCH_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_BATCH_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/service/admission/planning_limit.h"
#include "server/service/planning/plan_cache.h"
#include "server/service/planning/plan_observers.h"

namespace batchplan {

// MakePlan, or a test's substitute.
using PlanFunction = std::function<absl::StatusOr<Plan>(const Manifest&, const PlanOptions&,
                                                        const std::stop_token&)>;

// The configuration of PlanBatch, the same for every call.
struct PlanBatchConfig {
  PlanFunction plan;
  // Run the plan checker on every plan.
  bool verify_plans = false;
  // The largest response that may be sent.
  size_t max_message_bytes = 0;
  PlanObservers observers = {};
  // Null: every plan is made.
  PlanCache* cache = nullptr;
  // Null: planning may go on as long as the caller waits.
  PlanningLimit* limit = nullptr;
};

// Plans `request` for `caller` into `response`, which is useless after an error.
//
// The planner's errors as they are; DeadlineExceeded or Cancelled if the caller is gone before or
// after planning; ResourceExhausted, naming the limit, if planning takes too long; Internal if the
// plan checker refuses the plan. The response may be of any size; the caller checks what it sends.
absl::Status PlanBatch(const PlanBatchConfig& config, const v1::PlanBatchRequest& request,
                       const Caller& caller, v1::PlanBatchResponse* response);

struct PlannedBatch {
  std::shared_ptr<const CachedPlan> plan;
  absl::Duration planning_time;
  bool recalled = false;
};

// PlanBatch with the cache: finds the plan there, or makes it and puts it there. Counts in the
// metrics. CheckSendable's error if the response is too large. Does not change `request`.
absl::StatusOr<PlannedBatch> PlanOrRecall(const PlanBatchConfig& config,
                                          v1::PlanBatchRequest* request, const Caller& caller);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_BATCH_H_
