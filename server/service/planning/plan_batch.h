// PlanBatch, apart from gRPC: a request in, a response out.
//
//   absl::StatusOr<PlannedBatch> planned = PlanOrRecall(config, &request, caller);
//   absl::StatusOr<grpc::ByteBuffer> response = planned->plan->Answer(planned->planning_time);
//
// Pure but for the cache, what it records and what the plan checker's failures log; any number of
// calls may run at once. Takes the time and memory of MakePlan, and a copy of the plan's arrays; a
// plan that is recalled, those of reading and hashing the request.

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

// MakePlan, or what a test puts in its place.
using PlanFunction = std::function<absl::StatusOr<Plan>(const Manifest&, const PlanOptions&,
                                                        const std::stop_token&)>;

// What PlanBatch works with, the same for every call.
struct PlanBatchConfig {
  PlanFunction plan;
  // Run the plan checker on every plan.
  bool verify_plans = false;
  // The largest response that may be sent.
  size_t max_message_bytes = 0;
  PlanObservers observers = {};
  // Null: every plan is made.
  PlanCache* cache = nullptr;
  // Null: a plan may take as long as its caller waits.
  PlanningLimit* limit = nullptr;
};

// Plans `request` for `caller` into `response`, which on an error is to be thrown away.
//
// The planner's errors as they are; DeadlineExceeded or Cancelled if the caller is gone before or
// after planning; ResourceExhausted, naming the limit, if planning takes too long; Internal if the
// plan checker refuses the plan. Of any size: what is sent of it is the caller's to check.
absl::Status PlanBatch(const PlanBatchConfig& config, const v1::PlanBatchRequest& request,
                       const Caller& caller, v1::PlanBatchResponse* response);

struct PlannedBatch {
  std::shared_ptr<const CachedPlan> plan;
  absl::Duration planning_time;
  bool recalled = false;
};

// The same by way of the cache: finds the plan there, or plans and leaves it there. It counts in
// the metrics. CheckSendable's error if the response is too large. Changes nothing in `request`.
absl::StatusOr<PlannedBatch> PlanOrRecall(const PlanBatchConfig& config,
                                          v1::PlanBatchRequest* request, const Caller& caller);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_PLAN_BATCH_H_
