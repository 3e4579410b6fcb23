#include "batchplan/remote_connection.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "client/cpp/channel.h"
#include "client/cpp/channel_credentials.h"
#include "client/cpp/retry.h"
#include "client/cpp/tls_mistake.h"
#include "proto/batchplan/v1/call_rules.h"
#include "proto/batchplan/v1/run_id.h"
#include "proto/batchplan/v1/status.h"
#include "server/base/address_space.h"
#include "server/base/mutex.h"

namespace batchplan {
namespace {

// With less address space gRPC gets no threads and waits for them forever.
constexpr uint64_t kAddressSpace = uint64_t{96} << 20;

// How long a finding about TLS is kept.
constexpr absl::Duration kMistakesKept = absl::Seconds(5);

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(duration), std::numeric_limits<int>::max()));
}

grpc::ChannelArguments ChannelArgumentsFor(const RemoteOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  // A name of several addresses is several replicas. Any of them serves any call.
  arguments.SetLoadBalancingPolicyName("round_robin");
  // gRPC's own retries end after five attempts in some two seconds, however long the call may take.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(options.initial_backoff));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(options.max_backoff));
  // Despite its name, this limits how long a connection may take to be made.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, Milliseconds(kResolveInterval));
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return arguments;
}

// The server's delay before the next attempt. As in gRPC, a value that is no number means never.
std::optional<absl::Duration> Pushback(const grpc::Status& status,
                                       const grpc::ClientContext& context) {
  if (status.ok()) return std::nullopt;
  if (IsTooLarge(status.error_message())) return -absl::InfiniteDuration();
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("grpc-retry-pushback-ms");
  if (found == trailers.end()) return std::nullopt;
  int64_t milliseconds = 0;
  if (!absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()),
                        &milliseconds)) {
    milliseconds = -1;
  }
  return absl::Milliseconds(milliseconds);
}

absl::Status CheckAtLeast(const char* field, absl::Duration value, absl::Duration least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.", field, " is ",
                                                 absl::FormatDuration(value), ", must be at least ",
                                                 absl::FormatDuration(least)));
}

class RemoteConnection final : public Connection {
 public:
  RemoteConnection(const std::string& target, const RemoteOptions& options)
      : target_(target),
        options_(options),
        limits_({.initial_backoff = options.initial_backoff,
                 .max_backoff = options.max_backoff,
                 .attempt_timeout = options.attempt_timeout,
                 .max_attempts = options.max_attempts}),
        invalid_(options.Validate()) {
    if (invalid_.ok()) invalid_ = CheckAddressSpace("a connection to a server", kAddressSpace);
    if (!invalid_.ok()) return;
    const auto credentials = MakeChannelCredentials(options);
    if (!credentials.ok()) {
      invalid_ = credentials.status();
      return;
    }
    channel_ = std::make_unique<PolledChannel>(
        grpc::CreateCustomChannel(target, *credentials, ChannelArgumentsFor(options)));
    stub_ = v1::BatchPlanner::NewStub(channel_->get());
  }

  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& options) override {
    if (!invalid_.ok()) return invalid_;
    absl::Duration timeout = TimeoutOf(options);
    if (!options.has_fallback) {
      return Call(&v1::BatchPlanner::Stub::PlanBatch, request, CallKind::kPlan, timeout);
    }
    if (silent_) {
      const absl::Duration start = clock_.Now();
      const absl::Status answered = Probe(std::min(kProbeTimeout, timeout / 2));
      if (!answered.ok()) return answered;
      timeout -= clock_.Now() - start;
    }
    auto response =
        Call(&v1::BatchPlanner::Stub::PlanBatch, request, CallKind::kPlanWithFallback, timeout);
    silent_ = IsNoAnswer(response.status().code());
    return response;
  }

  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                  const CallOptions& options) override {
    if (!invalid_.ok()) return invalid_;
    constexpr auto kMethod = &v1::BatchPlanner::Stub::JoinBatch;
    const std::string run_id =
        request.run_id().empty() ? DefaultRunId(request.world_size()) : std::string();
    if (run_id.empty()) return Call(kMethod, request, CallKind::kJoin, TimeoutOf(options));
    v1::JoinBatchRequest of_run = request;
    of_run.set_run_id(run_id);
    return Call(kMethod, of_run, CallKind::kJoin, TimeoutOf(options));
  }

  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                    const CallOptions& options) override {
    if (!invalid_.ok()) return invalid_;
    return Call(&v1::BatchPlanner::Stub::ReportStep, request, CallKind::kReport,
                TimeoutOf(options));
  }

 private:
  absl::Duration TimeoutOf(const CallOptions& options) const {
    return options.timeout.value_or(options_.default_timeout);
  }

  // OK if a server answers again. Otherwise the reason; a mistake in token or TLS comes first.
  absl::Status Probe(absl::Duration limit) {
    const absl::Duration start = clock_.Now();
    if (absl::Status mistake = Mistake(limit / 2); !mistake.ok()) return mistake;
    LookAgain();
    return ProbeHealth(channel_->get(), limit - (clock_.Now() - start));
  }

  // The mistake in token or TLS that prevents a connection; OK if there is none.
  absl::Status Mistake(absl::Duration limit) {
    if (absl::Status token = CheckTokenFile(options_); !token.ok()) return token;
    if (channel_->get()->GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return absl::OkStatus();
    const MutexLock lock(mistake_mutex_);
    const absl::Duration now = clock_.Now();
    if (now >= look_again_for_mistakes_ && limit > absl::ZeroDuration()) {
      tls_mistake_ = FindTlsMistake(target_, options_.tls, limit);
      look_again_for_mistakes_ = now + kMistakesKept;
    }
    return tls_mistake_;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::BatchPlanner::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*),
                                const Request& request, CallKind kind, absl::Duration timeout) {
    Response response;
    const auto attempt = [&](absl::Duration left) -> AttemptEnd {
      grpc::ClientContext context;
      if (left != absl::InfiniteDuration()) {
        context.set_deadline(absl::ToChronoTime(absl::Now() + left));
      }
      const absl::Duration end = clock_.Now() + left;
      const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
      if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
        const absl::Status mistake = Mistake(std::min(kProbeTimeout, end - clock_.Now()));
        if (!mistake.ok()) return {.status = mistake};
        LookAgain();
      }
      return {.status = FromGrpcStatus(status), .pushback = Pushback(status, context)};
    };
    const absl::Status status = CallInAttempts(kind, limits_, timeout, clock_, attempt);
    if (!status.ok()) return status;
    return response;
  }

  // Ends gRPC's waits: up to two minutes before it looks up a name again, and some seconds before
  // it connects again. A new attempt should find a server as soon as it is there.
  void LookAgain() {
    const int64_t now = absl::ToInt64Milliseconds(clock_.Now());
    int64_t last = looked_again_;
    if (now - last < absl::ToInt64Milliseconds(options_.max_backoff)) return;
    if (!looked_again_.compare_exchange_strong(last, now)) return;
    grpc::experimental::ChannelResetConnectionBackoff(channel_->get().get());
  }

  const std::string target_;
  const RemoteOptions options_;
  const CallLimits limits_;
  RetryClock& clock_ = RealRetryClock();
  // Why there is no channel; OK if there is one.
  absl::Status invalid_;
  std::unique_ptr<PolledChannel> channel_;
  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
  // Whether the last call that had a fallback found no server.
  std::atomic<bool> silent_ = false;
  // When LookAgain last had names looked up, in milliseconds.
  std::atomic<int64_t> looked_again_ = 0;
  // Held while one call looks for mistakes; other calls wait for its finding.
  Mutex mistake_mutex_;
  absl::Status tls_mistake_ ABSL_GUARDED_BY(mistake_mutex_);
  absl::Duration look_again_for_mistakes_ ABSL_GUARDED_BY(mistake_mutex_);
};

}  // namespace

absl::Status RemoteOptions::Validate() const {
  if (max_message_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.max_message_bytes is ",
                                                   max_message_bytes, ", must be at least 1"));
  }
  if (default_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.default_timeout is ",
                                                   absl::FormatDuration(default_timeout),
                                                   ", must be more than 0"));
  }
  if (max_attempts.has_value() && *max_attempts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("RemoteOptions.max_attempts is ", *max_attempts, ", must be at least 1"));
  }
  if (initial_backoff < absl::Milliseconds(1) || initial_backoff > max_backoff) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RemoteOptions.initial_backoff is ", absl::FormatDuration(initial_backoff),
        ", must be at least 1ms and at most max_backoff, ", absl::FormatDuration(max_backoff)));
  }
  constexpr absl::Duration kLeast = absl::Milliseconds(1);
  for (const absl::Status& status :
       {CheckAtLeast("attempt_timeout", attempt_timeout, kLeast),
        CheckAtLeast("keepalive_time", keepalive_time, kLeast),
        CheckAtLeast("keepalive_timeout", keepalive_timeout, kLeast),
        CheckAtLeast("connect_timeout", connect_timeout, absl::Milliseconds(100))}) {
    if (!status.ok()) return status;
  }
  if (tls.has_value() && tls->root_certificates.empty()) {
    return absl::InvalidArgumentError(
        "RemoteOptions.tls.root_certificates is empty, must be a file");
  }
  if (tls.has_value() && tls->certificate.empty() != tls->key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.tls.certificate is \"",
                                                   tls->certificate, "\" and tls.key is \"",
                                                   tls->key, "\", must be two files or neither"));
  }
  if (!token_file.empty() && !tls.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.token_file is ", token_file,
                                                   ", must be empty without RemoteOptions.tls"));
  }
  return absl::OkStatus();
}

std::shared_ptr<Connection> MakeRemoteConnection(const std::string& target,
                                                 const RemoteOptions& options) {
  return std::make_shared<RemoteConnection>(target, options);
}

}  // namespace batchplan
