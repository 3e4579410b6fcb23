// The client of a GPU worker, one rank of DP x CP: fetches the plan of a batch and makes this
// rank's micro-batches ready to be packed. Where context-parallel groups differ in size
// (Topology.dynamic_context), a worker is a rank of the pool, and WorkerMicrobatch says which group
// it belongs to in each slot.
//
//   Client client(MakeRemoteConnection("planner:50051"));
//   WorkerOptions options = {.data_parallel_rank = 3, .context_parallel_rank = 0,
//                            .backend = BATCHPLAN_BACKEND_CUDA, .stream = stream,
//                            .allocator = {allocate, free}};
//   absl::StatusOr<WorkerClient> worker = WorkerClient::Create(client, options);
//   absl::StatusOr<WorkerPlan> plan = worker->FetchPlan(request);
//
// Every rank sends the same request and gets the same plan, because a plan is a pure function of
// its request; compare WorkerPlan::fingerprint() across ranks where planners of several versions
// may answer. What to do with a plan is in worker_plan.h, also how to report what its micro-batches
// took. UsePlan prepares a plan that came by another way, such as from one rank to all others.
//
// Link batchplan::worker, which brings the kernels; batchplan::client alone does without.
//
// Threads. A WorkerClient may be used from any number of threads at once, a WorkerPlan by one at a
// time. Errors: absl::Status, no exceptions. Cost: one call to the planner, a check of the plan
// (a pass over its arrays), one allocation.

#ifndef BATCHPLAN_CLIENT_CPP_WORKER_CLIENT_H_
#define BATCHPLAN_CLIENT_CPP_WORKER_CLIENT_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "batchplan/worker_options.h"
#include "batchplan/worker_plan.h"

namespace batchplan {

class WorkerClient {
 public:
  // Errors as by WorkerOptions::Validate.
  static absl::StatusOr<WorkerClient> Create(Client client, WorkerOptions options);

  // Plans the batch and prepares this rank's part of `request.passes(pass)`.
  //
  // Errors as by Client::PlanBatch and UsePlan, and for an invalid request.
  absl::StatusOr<WorkerPlan> FetchPlan(const v1::PlanBatchRequest& request, int pass = 0,
                                       const CallOptions& call = {}) const;

  // FetchPlan for every pass of the request, with one call to the planner.
  absl::StatusOr<std::vector<WorkerPlan>> FetchPlans(const v1::PlanBatchRequest& request,
                                                     const CallOptions& call = {}) const;

  // Prepares `response`, a planner's answer to `request`.
  //
  // InvalidArgument for a pass or a rank that the request does not have, Internal naming field and
  // value if the answer does not fit the request; also as by WorkerPlan::Create.
  absl::StatusOr<WorkerPlan> UsePlan(const v1::PlanBatchRequest& request,
                                     const v1::PlanBatchResponse& response, int pass = 0) const;

  const WorkerOptions& options() const { return options_; }

 private:
  WorkerClient(Client client, WorkerOptions options)
      : client_(std::move(client)), options_(std::move(options)) {}

  Client client_;
  WorkerOptions options_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_WORKER_CLIENT_H_
