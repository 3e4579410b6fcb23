#include "server/service/planner_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/planner/make_plan.h"
#include "server/service/plan_batch_call.h"

namespace batchplan {
namespace {

class CallOfAnotherVersion final : public UnaryCall {
 public:
  CallOfAnotherVersion(const Method& method, const CallEnvironment& environment, const RawCall& raw)
      : UnaryCall(method, environment, raw), name_(method.name) {}

 private:
  void Run() override {
    Answer(absl::UnimplementedError(
        absl::StrCat(name_, " is not in this version (", std::string(PlannerVersion()), ")")));
  }

  const char* const name_;
};

}  // namespace

PlannerService::PlannerService(const CallEnvironment& environment, PlanBatchConfig config)
    : environment_(environment), config_(std::move(config)) {}

grpc::ServerUnaryReactor* PlannerService::PlanBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall::Start(
      std::make_shared<PlanBatchCall>(environment_, config_, RawCall{context, request, response}));
}

grpc::ServerUnaryReactor* PlannerService::JoinBatch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<CallOfAnotherVersion>(
      Method{"JoinBatch", OutlineJoinBatch}, environment_, RawCall{context, request, response}));
}

grpc::ServerUnaryReactor* PlannerService::ReportStep(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return UnaryCall::Start(std::make_shared<CallOfAnotherVersion>(
      Method{"ReportStep", OutlineReportStep}, environment_, RawCall{context, request, response}));
}

}  // namespace batchplan
