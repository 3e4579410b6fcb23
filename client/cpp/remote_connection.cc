#include "batchplan/remote_connection.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "proto/batchplan/v1/status.h"

namespace batchplan {
namespace {

// gRPC clamps a retry policy to this many attempts.
constexpr int kMostAttempts = 5;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(duration), std::numeric_limits<int>::max()));
}

// RESOURCE_EXHAUSTED is a full queue: the server says with it when to try again, which goes before
// the back-off here. Where another attempt would end in the same way it says that too.
std::string RetryPolicy(const RemoteOptions& options) {
  return absl::StrFormat(
      R"json({"methodConfig": [{
        "name": [{"service": "batchplan.v1.BatchPlanner"}],
        "retryPolicy": {
          "maxAttempts": %d,
          "initialBackoff": "%d.%03ds",
          "maxBackoff": "%d.%03ds",
          "backoffMultiplier": 2,
          "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]
        }}]})json",
      options.max_attempts, Milliseconds(options.initial_backoff) / 1000,
      Milliseconds(options.initial_backoff) % 1000, Milliseconds(options.max_backoff) / 1000,
      Milliseconds(options.max_backoff) % 1000);
}

grpc::ChannelArguments ChannelArgumentsFor(const RemoteOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  // A request larger than this buffer is sent once and never retried; gRPC's own 256 KiB would take
  // retries from every batch of more than some 50,000 sequences.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, options.max_message_bytes);
  // A name of several addresses is several replicas. Any of them serves any call.
  arguments.SetLoadBalancingPolicyName("round_robin");
  // Otherwise all retries fail on the one refused connection, which gRPC tries again after 1 s.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(options.initial_backoff));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(options.initial_backoff));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(options.max_backoff));
  if (options.max_attempts > 1) {
    arguments.SetServiceConfigJSON(RetryPolicy(options));
  } else {
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  }
  return arguments;
}

class RemoteConnection final : public Connection {
 public:
  RemoteConnection(const std::string& target, const RemoteOptions& options)
      : options_(options), invalid_(options.Validate()) {
    if (!invalid_.ok()) return;
    stub_ = v1::BatchPlanner::NewStub(grpc::CreateCustomChannel(
        target, grpc::InsecureChannelCredentials(), ChannelArgumentsFor(options)));
  }

  absl::StatusOr<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request,
                                                  const CallOptions& options) override {
    return Call(&v1::BatchPlanner::Stub::PlanBatch, request, options);
  }

  absl::StatusOr<v1::JoinBatchResponse> JoinBatch(const v1::JoinBatchRequest& request,
                                                  const CallOptions& options) override {
    return Call(&v1::BatchPlanner::Stub::JoinBatch, request, options);
  }

  absl::StatusOr<v1::ReportStepResponse> ReportStep(const v1::ReportStepRequest& request,
                                                    const CallOptions& options) override {
    return Call(&v1::BatchPlanner::Stub::ReportStep, request, options);
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::BatchPlanner::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*),
                                const Request& request, const CallOptions& options) {
    if (!invalid_.ok()) return invalid_;
    const absl::Duration timeout = options.timeout.value_or(options_.default_timeout);
    grpc::ClientContext context;
    if (timeout != absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    }
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response;
  }

  const RemoteOptions options_;
  const absl::Status invalid_;
  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
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
  if (max_attempts < 1 || max_attempts > kMostAttempts) {
    return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.max_attempts is ", max_attempts,
                                                   ", must be 1 to ", kMostAttempts));
  }
  if (initial_backoff < absl::Milliseconds(1) || initial_backoff > max_backoff) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RemoteOptions.initial_backoff is ", absl::FormatDuration(initial_backoff),
        ", must be at least 1ms and at most max_backoff, ", absl::FormatDuration(max_backoff)));
  }
  return absl::OkStatus();
}

std::shared_ptr<Connection> MakeRemoteConnection(const std::string& target,
                                                 const RemoteOptions& options) {
  return std::make_shared<RemoteConnection>(target, options);
}

}  // namespace batchplan
