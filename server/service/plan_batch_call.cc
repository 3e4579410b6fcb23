#include "server/service/plan_batch_call.h"

#include <string>

#include "batchplan/v1/batch_planner.grpc.pb.h"  // brings gRPC's serialisation of messages
#include "proto/batchplan/v1/status.h"
#include "server/service/authentication.h"
#include "server/service/rpc_status.h"
#include "server/telemetry/log.h"

namespace batchplan {

PlanBatchCall::PlanBatchCall(const PlanBatchConfig& config, grpc::CallbackServerContext* context,
                             const grpc::ByteBuffer* request, grpc::ByteBuffer* response)
    : config_(config), context_(context), request_bytes_(request), response_bytes_(response) {}

void PlanBatchCall::Start(WorkerPool* pool) {
  // Counted first: the job may have left the queue before TrySubmit returns.
  config_.metrics->RecordEnqueued();
  const absl::Status submitted =
      CatchExceptions([this, pool] { return pool->TrySubmit([this] { Run(); }); });
  if (submitted.ok()) return;  // `this` belongs to the job, and may be gone
  config_.metrics->RecordDequeued();
  Answer(submitted);
}

void PlanBatchCall::OnDone() {
  if (answered_.load(std::memory_order_acquire)) delete this;
}

void PlanBatchCall::Run() {
  config_.metrics->RecordDequeued();
  Answer(CatchExceptions([this] { return Plan(); }));
}

absl::Status PlanBatchCall::Plan() {
  const Caller caller{.deadline = context_->deadline(), .stop = stop_.get_token()};
  // Whoever waited in the queue for too long is not even parsed.
  absl::Status waiting = caller.StillWaiting();
  if (!waiting.ok()) return waiting;

  grpc::ByteBuffer bytes = *request_bytes_;  // shares the slices; parsing consumes a buffer
  if (!grpc::SerializationTraits<v1::PlanBatchRequest>::Deserialize(&bytes, &request_).ok()) {
    return absl::InvalidArgumentError(
        "the message is not a batchplan.v1.PlanBatchRequest: it does not parse as protobuf, or a "
        "string in it is not UTF-8");
  }
  absl::Status status = CheckJobAllowed(config_.tokens, *context_, request_.job_id());
  if (!status.ok()) return status;
  status = PlanBatch(config_, request_, caller, &response_);
  if (!status.ok()) return status;
  bool owned = false;
  const grpc::Status serialized = grpc::SerializationTraits<v1::PlanBatchResponse>::Serialize(
      response_, response_bytes_, &owned);
  return serialized.ok() ? absl::OkStatus() : absl::InternalError("can't serialise the response");
}

void PlanBatchCall::Answer(const absl::Status& status) {
  const absl::Status clean = CleanStatus(status);
  if (!clean.ok()) config_.metrics->RecordError(clean.code());
  uint64_t microbatches = 0;
  for (const v1::PassPlan& pass : response_.passes()) {
    microbatches += pass.metrics().microbatches();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - arrival_;
  Log(clean.code() == absl::StatusCode::kInternal ? Severity::kError : Severity::kInfo, "PlanBatch",
      {{"request_id", request_.request_id()},
       {"job", request_.job_id()},
       {"step", request_.step()},
       {"sequences", request_.manifest().lengths_size()},
       {"microbatches", microbatches},
       {"seconds", seconds.count()},
       {"code", absl::StatusCodeToString(clean.code())},
       {"error", std::string(clean.message())}});
  answered_.store(true, std::memory_order_release);
  Finish(ToGrpcStatus(clean));
}

}  // namespace batchplan
