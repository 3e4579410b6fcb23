#include "server/service/planner_service.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/batchplan/v1/status.h"
#include "server/planner/make_plan.h"
#include "server/service/plan_batch_call.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

grpc::ServerUnaryReactor* NotInThisVersion(const char* method, const std::string& job_id,
                                           uint64_t step, grpc::CallbackServerContext* context,
                                           Metrics* metrics) {
  const absl::Status status = absl::UnimplementedError(
      absl::StrCat(method, " is not in this version (", std::string(PlannerVersion()), ")"));
  metrics->RecordError(status.code());
  Log(Severity::kInfo, method,
      {{"job", job_id}, {"step", step}, {"code", absl::StatusCodeToString(status.code())}});
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

PlannerService::PlannerService(PlanBatchConfig config, WorkerPool* pool)
    : config_(std::move(config)), pool_(pool) {}

grpc::ServerUnaryReactor* PlannerService::PlanBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  auto* call = new PlanBatchCall(config_, context, request, response);
  call->Start(pool_);
  return call;  // alive: gRPC calls OnDone only after it has taken the reactor
}

grpc::ServerUnaryReactor* PlannerService::JoinBatch(grpc::CallbackServerContext* context,
                                                    const v1::JoinBatchRequest* request,
                                                    v1::JoinBatchResponse* /*response*/) {
  return NotInThisVersion("JoinBatch", request->request().job_id(), request->request().step(),
                          context, config_.metrics);
}

grpc::ServerUnaryReactor* PlannerService::ReportStep(grpc::CallbackServerContext* context,
                                                     const v1::ReportStepRequest* request,
                                                     v1::ReportStepResponse* /*response*/) {
  return NotInThisVersion("ReportStep", request->job_id(), request->step(), context,
                          config_.metrics);
}

}  // namespace batchplan
