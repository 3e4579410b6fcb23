// PlanBatch, apart from gRPC: a request in, a response out.
//
// Pure but for the metrics it records and for what the plan checker's failures log; any number of
// calls may run at once. Takes the time and memory of MakePlan, and a copy of the plan's arrays.

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/plan.h"
#include "server/service/tokens.h"
#include "server/telemetry/metrics.h"

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
  Metrics* metrics = nullptr;
  // Whose callers are held to the jobs of their tokens; nullptr: all may plan for all jobs.
  const Tokens* tokens = nullptr;
};

// How long a caller waits.
struct Caller {
  std::chrono::system_clock::time_point deadline = std::chrono::system_clock::time_point::max();
  // Stop is requested when the call is cancelled.
  std::stop_token stop;

  // OK while the caller waits; DeadlineExceeded or Cancelled once it doesn't.
  absl::Status StillWaiting() const;
};

// Plans `request` for `caller` into `response`, which on an error is to be thrown away.
//
// The planner's errors as they are; DeadlineExceeded or Cancelled if the caller is gone before or
// after planning; ResourceExhausted, naming size and limit, if the response is too large to send;
// Internal if the plan checker refuses the plan.
absl::Status PlanBatch(const PlanBatchConfig& config, const v1::PlanBatchRequest& request,
                       const Caller& caller, v1::PlanBatchResponse* response);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_BATCH_H_
