// The batchplan.v1.BatchPlanner service over gRPC's callback API.
//
// gRPC's own threads only accept calls and pass them to the planning pool, or to the threads that
// may wait for the store, where parsing, planning and serialising happen. A call that is cancelled,
// or whose deadline passes, stops its planning. Every call is answered exactly once and leaves one
// line in the log. (Calls that gRPC refuses itself, such as for a message over the limit, do not
// get here and are neither counted nor logged.)

#ifndef BATCHPLAN_SERVER_SERVICE_RPC_PLANNER_SERVICE_H_
#define BATCHPLAN_SERVER_SERVICE_RPC_PLANNER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "server/service/planning/collective_planner.h"
#include "server/service/planning/job_fits.h"
#include "server/service/planning/plan_batch.h"
#include "server/service/rpc/unary_call.h"

namespace batchplan {

// The methods take bytes rather than messages: gRPC would parse up to 64 MiB on one of its few
// threads, and answers bytes that don't parse with a bare UNIMPLEMENTED.
using PlannerServiceBase = v1::BatchPlanner::WithRawCallbackMethod_PlanBatch<
    v1::BatchPlanner::WithRawCallbackMethod_JoinBatch<
        v1::BatchPlanner::WithRawCallbackMethod_ReportStep<v1::BatchPlanner::Service>>>;

class PlannerService final : public PlannerServiceBase {
 public:
  // All pointers must outlive the gRPC server that the service is registered with.
  PlannerService(const CallEnvironment& environment, const PlanBatchConfig& config,
                 CollectivePlanner* collective, JobFits* fits);

  grpc::ServerUnaryReactor* PlanBatch(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

  grpc::ServerUnaryReactor* JoinBatch(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReportStep(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  const CallEnvironment environment_;
  const PlanBatchConfig& config_;
  CollectivePlanner* const collective_;
  JobFits* const fits_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_RPC_PLANNER_SERVICE_H_
