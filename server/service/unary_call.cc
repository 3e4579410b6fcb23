#include "server/service/unary_call.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/batchplan/v1/status.h"
#include "server/service/call_names.h"
#include "server/service/rpc_status.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// Of a number that is not known, nothing, which leaves its field out of the log line.
std::string Shown(std::optional<uint64_t> number) {
  return number.has_value() ? absl::StrCat(*number) : "";
}

}  // namespace

UnaryCall::UnaryCall(const Method& method, const CallEnvironment& environment, const RawCall& raw)
    : method_(method), environment_(environment), raw_(raw), deadline_(raw.context->deadline()) {}

grpc::ServerUnaryReactor* UnaryCall::Start(std::shared_ptr<UnaryCall> call) {
  UnaryCall* const reactor = call.get();
  reactor->grpcs_share_ = std::move(call);
  reactor->Begin();
  return reactor;  // alive, even if answered: gRPC calls OnDone only after it has taken the reactor
}

void UnaryCall::Begin() {
  const absl::Status begun = CatchExceptions([this] {
    outline_ = method_.outline(*raw_.request);
    request_id_ = outline_.request_id.bytes > 0 ? outline_.request_id.text : NewRequestId();
    traceparent_ = TraceparentOf(raw_.context->client_metadata());
    absl::Status status = CheckLimits(outline_, environment_.limits);
    if (!status.ok()) return status;
    // Counted first: the work may have left the queue before TrySubmit returns.
    environment_.metrics->RecordEnqueued();
    status = environment_.pool->TrySubmit([call = self()] { call->RunOnPool(); });
    if (!status.ok()) environment_.metrics->RecordDequeued();
    return status;
  });
  if (!begun.ok()) Answer(begun);
}

void UnaryCall::RunOnPool() {
  environment_.metrics->RecordDequeued();
  // For whoever waited in the queue for too long, nothing is even parsed.
  absl::Status status = caller().StillWaiting();
  if (status.ok()) {
    status = CatchExceptions([this] {
      Run();
      return absl::OkStatus();
    });
  }
  if (!status.ok()) Answer(status);
}

void UnaryCall::Answer(absl::StatusOr<CallAnswer> answer) noexcept {
  State open = State::kOpen;
  if (!state_.compare_exchange_strong(open, State::kAnswering, std::memory_order_acq_rel)) return;

  const absl::Status status = CleanStatus(answer.status());
  if (!status.ok()) environment_.metrics->RecordError(status.code());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - arrival_;
  Log(status.code() == absl::StatusCode::kInternal ? Severity::kError : Severity::kInfo,
      method_.name,
      {{"request_id", request_id_},
       {"job", outline_.job_id.text},
       {"step", outline_.step},
       {"sequences", outline_.sequences},
       {"microbatches", Shown(answer.ok() ? answer->microbatches : std::nullopt)},
       {"seconds", seconds.count()},
       {"traceparent", traceparent_},
       {"code", absl::StatusCodeToString(status.code())},
       {"error", std::string(status.message())}});
  if (answer.ok()) raw_.response->Swap(&answer->response);
  state_.store(State::kAnswered, std::memory_order_release);
  Finish(ToGrpcStatus(status));
}

void UnaryCall::OnDone() {
  static_cast<void>(state_.load(std::memory_order_acquire));
  // The last thing done to the call, unless somebody else still holds it.
  const std::shared_ptr<UnaryCall> last = std::move(grpcs_share_);
}

}  // namespace batchplan
