#include "server/service/planner_service.h"

#include <memory>

#include "server/service/join_batch_call.h"
#include "server/service/plan_batch_call.h"
#include "server/service/report_step_call.h"

namespace batchplan {

PlannerService::PlannerService(const CallEnvironment& environment, const PlanBatchConfig& config,
                               CollectivePlanner* collective, JobFits* fits)
    : environment_(environment), config_(config), collective_(collective), fits_(fits) {}

grpc::ServerUnaryReactor* PlannerService::PlanBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<PlanBatchCall>(environment_, config_, fits_,
                                                          RawCall{context, request, response}));
}

grpc::ServerUnaryReactor* PlannerService::JoinBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<JoinBatchCall>(environment_, collective_,
                                                          RawCall{context, request, response}));
}

grpc::ServerUnaryReactor* PlannerService::ReportStep(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return UnaryCall::Start(
      std::make_shared<ReportStepCall>(environment_, fits_, RawCall{context, request, response}));
}

}  // namespace batchplan
