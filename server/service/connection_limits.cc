#include "server/service/connection_limits.h"

#include <grpc/grpc.h>

#include <limits>
#include <string>

#include "absl/time/time.h"

namespace batchplan {
namespace {

// gRPC's "never".
constexpr int kNever = std::numeric_limits<int>::max();

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

int MillisecondsOrNever(absl::Duration duration) {
  return duration == absl::ZeroDuration() ? kNever : Milliseconds(duration);
}

}  // namespace

void SetConnectionLimits(const ServerOptions& options, grpc::ServerBuilder* builder) {
  const auto set = [builder](const char* name, int value) {
    builder->AddChannelArgument(name, value);
  };
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder->SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  // Without this, a second server would share the port with the first, and take half its calls.
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_interval));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  // A connection between two steps of training has no calls, and has to be kept alive too.
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Milliseconds(options.min_client_ping_interval));
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, MillisecondsOrNever(options.max_connection_idle));
  set(GRPC_ARG_MAX_CONNECTION_AGE_MS, MillisecondsOrNever(options.max_connection_age));
  // Here 0 is no grace at all.
  set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(options.max_connection_age_grace));
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(options.handshake_timeout));
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.max_concurrent_streams));
  set(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.max_metadata_bytes));
}

}  // namespace batchplan
