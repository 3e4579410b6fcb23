// Between the wire and the planner: requests become planner options, plans become responses.
//
//   absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
//   absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options, stop);
//   FillResponse(*plan, planning_time, &response);

#ifndef BATCHPLAN_PROTO_V1_CONVERT_H_
#define BATCHPLAN_PROTO_V1_CONVERT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

struct ParsedRequest {
  // Views the request's arrays: the request must outlive it.
  Manifest manifest;
  // Complete: the preset's values stand wherever the request set none.
  PlanOptions options;
};

// Applies the preset, whose sharding and equal counts give way to the manifest's ranks if it has
// any, and checks what only the wire can get wrong (unknown enum values, an unknown preset:
// Unimplemented, since another version may know them). InvalidArgument or Unimplemented, naming the
// field; PlanOptions::Validate and MakePlan check the rest.
//
// FailedPrecondition if cost_model.fitted is set: only a server has fitted costs, and puts them in
// its place before it parses the request.
absl::StatusOr<ParsedRequest> ParseRequest(const v1::PlanBatchRequest& request);

// ParseRequest without the cost model, which is not read and stays at its default: for a request
// that asks for fitted costs, before they are known.
absl::StatusOr<ParsedRequest> ParseRequestWithoutCosts(const v1::PlanBatchRequest& request);

// InvalidArgument if other fields are set beside cost_model.fitted.
absl::Status CheckFittedStandsAlone(const v1::CostModel& model);

// Views the arrays of `wire`, which must outlive it.
Manifest ReadManifest(const v1::Manifest& wire);

// What a cost model says of loads.
std::vector<LoadCost> ReadLoadCosts(const v1::CostModel& wire);

// The exchange of the default costs with dynamic_context, where a token costs `per_token`.
void SetDefaultExchange(double per_token, v1::CostModel* model);

// LOCKSTEP where it is unspecified. Unimplemented, naming the field, for a value that this version
// does not know.
absl::StatusOr<Synchronization> ParseSynchronization(v1::Synchronization wire);

// Writes `plan`, the time it took and the planner's version into `response`. Copies each array
// once.
void FillResponse(const Plan& plan, absl::Duration planning_time, v1::PlanBatchResponse* response);

// The metrics of a pass.
PlanMetrics ReadMetrics(const v1::PlanMetrics& wire);

// The plan that a response carries, for the plan checker. InvalidArgument if an enum value is
// unknown.
absl::StatusOr<Plan> ParseResponse(const v1::PlanBatchResponse& response);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_CONVERT_H_
