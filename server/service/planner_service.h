// The batchplan.v1.BatchPlanner service over gRPC's callback API.
//
// gRPC's own threads only take calls and hand them to the worker pool; parsing, planning and
// serialising happen there. A call that is cancelled, or whose deadline passes, stops its planning.
// Every call is answered exactly once and leaves one line in the log. (What gRPC turns away itself,
// such as a message over the limit, does not come here and is neither counted nor logged. A call
// that finds the queue full is not parsed, so its line has no request_id.)

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNER_SERVICE_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "server/service/plan_batch.h"
#include "server/service/worker_pool.h"

namespace batchplan {

// PlanBatch takes bytes rather than a message: gRPC would parse up to 64 MiB on one of its few
// threads, and answers bytes that don't parse with a bare UNIMPLEMENTED.
using PlannerServiceBase = v1::BatchPlanner::WithRawCallbackMethod_PlanBatch<
    v1::BatchPlanner::WithCallbackMethod_JoinBatch<
        v1::BatchPlanner::WithCallbackMethod_ReportStep<v1::BatchPlanner::Service>>>;

class PlannerService final : public PlannerServiceBase {
 public:
  // `pool` and config.metrics must outlive the gRPC server that the service is registered with.
  PlannerService(PlanBatchConfig config, WorkerPool* pool);

  grpc::ServerUnaryReactor* PlanBatch(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

  // Not in this version: UNIMPLEMENTED.
  grpc::ServerUnaryReactor* JoinBatch(grpc::CallbackServerContext* context,
                                      const v1::JoinBatchRequest* request,
                                      v1::JoinBatchResponse* response) override;
  grpc::ServerUnaryReactor* ReportStep(grpc::CallbackServerContext* context,
                                       const v1::ReportStepRequest* request,
                                       v1::ReportStepResponse* response) override;

 private:
  const PlanBatchConfig config_;
  WorkerPool* const pool_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNER_SERVICE_H_
