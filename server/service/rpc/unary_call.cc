#include "server/service/rpc/unary_call.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/batchplan/v1/status.h"
#include "server/service/admission/request_limits.h"
#include "server/service/admission/rpc_status.h"
#include "server/service/rpc/call_names.h"
#include "server/service/security/authentication.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// "hit" or "miss"; empty if unknown, which leaves the field out of the log line.
std::string_view ShownCache(std::optional<bool> recalled) {
  if (!recalled.has_value()) return "";
  return *recalled ? "hit" : "miss";
}

absl::Duration TimeLeft(Instant deadline) {
  if (deadline == Instant::max()) return absl::InfiniteDuration();
  return absl::FromChrono(deadline - std::chrono::steady_clock::now());
}

}  // namespace

UnaryCall::UnaryCall(const Method& method, const CallEnvironment& environment, const RawCall& raw)
    : method_(method),
      environment_(environment),
      raw_(raw),
      deadline_(SteadyDeadline(raw.context->deadline())) {
  environment_.metrics->BeginCall(method_.name);
}

UnaryCall::~UnaryCall() {
  if (held_bytes_ > 0) environment_.waiting_bytes->Give(held_bytes_);
}

grpc::ServerUnaryReactor* UnaryCall::Start(std::shared_ptr<UnaryCall> call) {
  UnaryCall* const reactor = call.get();
  reactor->grpcs_share_ = std::move(call);
  reactor->state_.store(State::kOpen, std::memory_order_release);
  reactor->Begin();
  return reactor;  // alive, even if answered: gRPC calls OnDone only after it has taken the reactor
}

void UnaryCall::Begin() {
  const absl::Status begun = CatchExceptions([this] {
    outline_ = method_.outline(*raw_.request);
    request_id_ = outline_.request_id.bytes > 0 ? outline_.request_id.text : NewRequestId();
    traceparent_ = TraceparentOf(raw_.context->client_metadata());
    if (environment_.calls != nullptr && !environment_.calls->Begin(this)) {
      return absl::UnavailableError("the server is shutting down");
    }
    absl::Status status = CheckLimits(outline_, environment_.limits);
    if (!status.ok()) return status;
    status = CheckJobAllowed(environment_.tokens, *raw_.context, outline_.job_id.text);
    if (!status.ok()) return status;
    admitted_ = true;
    owner_ = OwnerOf(environment_.tokens, *raw_.context);
    return Queue();
  });
  if (!begun.ok()) Answer(begun);
}

absl::Status UnaryCall::QueueToPlan() {
  const absl::StatusOr<uint64_t> ticket = environment_.pool->Submit({
      .owner = owner_,
      .job = outline_.job_id.text,
      .effort = outline_.effort,
      .cost = CostOf(outline_),
      .time_left = TimeLeft(deadline_),
      .run = [call = self()] { call->RunQueued(); },
      .refuse = [call = self()](const absl::Status& refusal) { call->Answer(refusal); },
  });
  if (!ticket.ok()) return ticket.status();
  planning_ticket_.store(*ticket);
  // A cancellation that came before knew no ticket to remove.
  if (stop_.stop_requested()) LeaveQueue();
  return absl::OkStatus();
}

absl::Status UnaryCall::CheckOutlined(const std::string& job_id) const {
  if (job_id == outline_.job_id.text) return absl::OkStatus();
  return absl::InvalidArgumentError("job_id can't be read from the message as it was sent");
}

absl::Status UnaryCall::CheckOutlined(const v1::PlanBatchRequest& request) const {
  absl::Status status = CheckOutlined(request.job_id());
  RequestOutline parsed = OutlineOf(request);
  parsed.message_bytes = outline_.message_bytes;
  if (CostOf(parsed) > CostOf(outline_)) {
    status.Update(absl::InvalidArgumentError(
        "passes and topology can't be read from the message as it was sent"));
  }
  return status;
}

absl::Status UnaryCall::QueueForStore(const std::string& turn) {
  if (held_bytes_ == 0) {
    absl::Status room = environment_.waiting_bytes->Take(outline_.message_bytes);
    if (!room.ok()) return room;
    held_bytes_ = outline_.message_bytes;
  }
  StoreThreads* const threads = environment_.*method_.store_threads;
  const absl::StatusOr<uint64_t> ticket =
      threads->TrySubmit([call = self()] { call->RunQueued(); }, turn);
  if (!ticket.ok()) return ticket.status();
  store_ticket_.store(*ticket);
  if (stop_.stop_requested()) LeaveQueue();
  return absl::OkStatus();
}

void UnaryCall::DropRequestBytes() { const_cast<grpc::ByteBuffer*>(raw_.request)->Clear(); }

void UnaryCall::OnCancel() {
  static_cast<void>(state_.load(std::memory_order_acquire));
  stop_.request_stop();
  LeaveQueue();
}

void UnaryCall::CutShort() {
  cut_short_ = true;
  OnCancel();
}

void UnaryCall::LeaveQueue() {
  const uint64_t planning = planning_ticket_.load();
  const uint64_t waiting = store_ticket_.load();
  StoreThreads* const threads = environment_.*method_.store_threads;
  if ((planning != 0 && environment_.pool->Remove(planning)) ||
      (waiting != 0 && threads->Remove(waiting))) {
    Answer(caller().StillWaiting());
  }
}

void UnaryCall::RunQueued() {
  // A call that waited too long is not even parsed.
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

  const std::shared_ptr<UnaryCall> kept = weak_from_this().lock();
  if (answer.ok() && environment_.unsent != nullptr) {
    const absl::Status held = CatchExceptions([&] { return HoldAnswer(*answer); });
    if (!held.ok()) answer = held;
  }
  absl::Status status = CleanStatus(answer.status());
  if (cut_short_ && absl::IsCancelled(status)) {
    status = absl::UnavailableError("the server is shutting down, and its shutdown_grace is over");
  }
  if (!status.ok()) {
    environment_.metrics->RecordJobError(admitted_ ? outline_.job_id.text : kOtherJobs,
                                         absl::Now());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - arrival_;
  environment_.metrics->EndCall(method_.name, status.code(), seconds.count());
  if (answer.ok()) raw_.response->Swap(&answer->response);
  if (const std::optional<absl::Duration> delay = RetryAfter(answer.status())) {
    raw_.context->AddTrailingMetadata("grpc-retry-pushback-ms",
                                      absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
  answered_ok_ = status.ok();
  state_.store(State::kAnswered, std::memory_order_release);
  Finish(ToGrpcStatus(status));
  // Logged after the answer, so that the caller does not wait. gRPC may be done with the call, so
  // only the call's own members are used, which no longer change.
  Log(status.code() == absl::StatusCode::kInternal ? Severity::kError : Severity::kInfo,
      method_.name,
      {{"request_id", request_id_},
       {"job", outline_.job_id.text},
       {"step", outline_.step},
       {"sequences", outline_.sequences},
       {"microbatches", answer.ok() ? answer->microbatches : std::nullopt},
       {"cache", ShownCache(answer.ok() ? answer->recalled : std::nullopt)},
       {"seconds", seconds.count()},
       {"traceparent", traceparent_},
       {"code", absl::StatusCodeToString(status.code())},
       {"error", std::string(status.message())}});
}

absl::Status UnaryCall::HoldAnswer(const CallAnswer& answer) {
  // gRPC's context lives until OnDone returns, which ends this.
  const absl::StatusOr<uint64_t> ticket =
      environment_.unsent->Begin({.owner = owner_,
                                  .bytes = answer.response.Length(),
                                  .shared = answer.shared,
                                  .cancel = [this] { raw_.context->TryCancel(); }});
  if (ticket.ok()) unsent_ticket_ = *ticket;
  return ticket.status();
}

void UnaryCall::OnDone() {
  const bool answered = state_.load(std::memory_order_acquire) == State::kAnswered;
  // If its status could not be sent, the call counts as cancelled.
  if (answered && answered_ok_ && !raw_.context->IsCancelled()) {
    CatchExceptions([this] {
      Delivered();
      return absl::OkStatus();
    }).IgnoreError();
  }
  if (unsent_ticket_ != 0) environment_.unsent->End(unsent_ticket_);
  if (environment_.calls != nullptr) environment_.calls->End(this);
  // Destroys the call here, unless somebody else still holds it.
  const std::shared_ptr<UnaryCall> last = std::move(grpcs_share_);
}

}  // namespace batchplan
