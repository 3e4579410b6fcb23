#include "server/service/server_options.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/store/redis/redis_address.h"

namespace batchplan {
namespace {

constexpr int64_t kMaxThreads = 1024;
// The planner's limit.
constexpr int64_t kMaxSequences = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxQueuedPlans = 1'000'000;
constexpr int64_t kMaxQueuedSequences = int64_t{1} << 40;
constexpr int64_t kMinRendezvousBytes = 1 << 20;
constexpr int64_t kMaxRendezvousBytes = int64_t{1} << 40;
constexpr int64_t kMaxWaitingJoins = 1'000'000;
constexpr absl::Duration kMaxStepLife = absl::Hours(24);
// gRPC has sizes as ints.
constexpr int64_t kMinMessageBytes = 1024;
constexpr int64_t kMaxMessageBytes = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxPlanCacheBytes = int64_t{1} << 40;
constexpr absl::Duration kMinPlanning = absl::Milliseconds(100);
constexpr absl::Duration kMaxWait = absl::Hours(1);
// gRPC has these intervals as milliseconds in an int.
constexpr absl::Duration kMaxInterval = absl::Hours(24);
constexpr absl::Duration kMinAcceptPatience = absl::Seconds(5);
constexpr int64_t kMaxJobLabels = 10'000;
constexpr int64_t kMaxRecentPlans = 256;
constexpr int64_t kMaxStreams = 1'000'000;
constexpr int64_t kMinMetadataBytes = 4 << 10;
constexpr int64_t kMaxMetadataBytes = 1 << 20;

absl::Status CheckRange(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": must be ", low, " to ", high));
}

absl::Status CheckWait(const char* flag, absl::Duration value,
                       absl::Duration low = absl::ZeroDuration(), absl::Duration high = kMaxWait) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", absl::ToDoubleSeconds(value),
                                                 ": must be ", absl::ToDoubleSeconds(low), " to ",
                                                 absl::ToInt64Seconds(high), " seconds"));
}

// Refuses a flag that has no use, or is not safe, without another.
absl::Status CheckNeeds(const char* flag, const std::string& value, const char* needed,
                        const std::string& needed_value) {
  if (value.empty() || !needed_value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": needs --", needed, " too"));
}

// HOST:PORT, where the host is a single word. The libraries of the listeners would read lists and
// suffixes in their own ways.
bool IsHostAndPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = address.substr(0, colon);
  if (host.find_first_of(" \t\n,/") != std::string_view::npos) return false;
  if (host.find(':') != std::string_view::npos && (host.front() != '[' || host.back() != ']')) {
    return false;
  }
  const std::string port(address.substr(colon + 1));
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos) return false;
  uint32_t number = 0;
  return absl::SimpleAtoi(port, &number) && number <= 65535;
}

// The error does not quote the URL: any part of one that can't be parsed may be a password.
absl::Status CheckStore(const std::string& store) {
  if (store == "memory") return absl::OkStatus();
  const absl::StatusOr<RedisAddress> address = ParseRedisAddress(store);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rendezvous_store: must be memory or a Redis: ", address.status().message()));
  }
  if (!address->password.empty()) {
    return absl::InvalidArgumentError(
        "--rendezvous_store has a password, which every user of this machine can read: leave it "
        "out and name a file with --rendezvous_password");
  }
  return absl::OkStatus();
}

// A URL without TLS may not have files for TLS, whose user expects encryption.
absl::Status CheckStoreTls(const char* flag, const std::string& value, const std::string& store) {
  const absl::StatusOr<RedisAddress> address = ParseRedisAddress(store);
  if (value.empty() || (address.ok() && address->tls)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value,
                                                 ": needs a --rendezvous_store with rediss:// or ",
                                                 "rediss+sentinel://"));
}

absl::Status CheckAddress(const char* flag, const std::string& address) {
  if (IsHostAndPort(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", address, ": must be HOST:PORT with a port of 0 to 65535, as in ",
      "127.0.0.1:50051 or [::]:50051"));
}

}  // namespace

absl::Status ServerOptions::Validate() const {
  absl::Status status;
  if (!absl::StartsWith(listen, "unix:")) status.Update(CheckAddress("listen", listen));
  if (!metrics_listen.empty()) status.Update(CheckAddress("metrics_listen", metrics_listen));
  status.Update(
      CheckRange("max_message_bytes", max_message_bytes, kMinMessageBytes, kMaxMessageBytes));
  status.Update(CheckRange("max_sequences", max_sequences, 1, kMaxSequences));
  status.Update(CheckRange("planning_threads", planning_threads, 0, kMaxThreads));
  status.Update(CheckRange("max_queued_plans", max_queued_plans, 0, kMaxQueuedPlans));
  status.Update(CheckRange("max_queued_sequences", max_queued_sequences, 1, kMaxQueuedSequences));
  status.Update(CheckWait("max_planning_seconds", max_planning_seconds, kMinPlanning));
  status.Update(CheckRange("plan_cache_bytes", plan_cache_bytes, 0, kMaxPlanCacheBytes));
  status.Update(CheckRange("rendezvous_memory_bytes", rendezvous_memory_bytes, kMinRendezvousBytes,
                           kMaxRendezvousBytes));
  status.Update(CheckWait("step_time_to_live", step_time_to_live, absl::Seconds(1), kMaxStepLife));
  status.Update(CheckWait("step_retention", step_retention, absl::Seconds(1), kMaxStepLife));
  status.Update(CheckStore(rendezvous_store));
  for (const auto& [flag, value] :
       {std::pair("rendezvous_tls_ca", rendezvous_tls_ca),
        std::pair("rendezvous_tls_certificate", rendezvous_tls_certificate),
        std::pair("rendezvous_tls_key", rendezvous_tls_key)}) {
    status.Update(CheckStoreTls(flag, value, rendezvous_store));
  }
  status.Update(CheckNeeds("rendezvous_tls_certificate", rendezvous_tls_certificate,
                           "rendezvous_tls_key", rendezvous_tls_key));
  status.Update(CheckNeeds("rendezvous_tls_key", rendezvous_tls_key, "rendezvous_tls_certificate",
                           rendezvous_tls_certificate));
  status.Update(
      CheckRange("max_waiting_bytes", max_waiting_bytes, kMinRendezvousBytes, kMaxRendezvousBytes));
  status.Update(
      CheckRange("max_unsent_bytes", max_unsent_bytes, kMinRendezvousBytes, kMaxRendezvousBytes));
  status.Update(CheckRange("max_waiting_joins", max_waiting_joins, 1, kMaxWaitingJoins));
  status.Update(CheckRange("max_job_labels", max_job_labels, 0, kMaxJobLabels));
  status.Update(CheckRange("recent_plans", recent_plans, 0, kMaxRecentPlans));
  status.Update(CheckNeeds("tls_certificate", tls_certificate, "tls_key", tls_key));
  status.Update(CheckNeeds("tls_key", tls_key, "tls_certificate", tls_certificate));
  status.Update(CheckNeeds("tls_client_ca", tls_client_ca, "tls_certificate", tls_certificate));
  // Without TLS, anyone on the way could read the token.
  status.Update(CheckNeeds("auth_tokens", auth_tokens, "tls_certificate", tls_certificate));
  const absl::Duration second = absl::Seconds(1);
  status.Update(CheckWait("tls_reload_interval", tls_reload_interval, second, kMaxInterval));
  status.Update(CheckWait("keepalive_interval", keepalive_interval, second, kMaxInterval));
  status.Update(CheckWait("keepalive_timeout", keepalive_timeout, second, kMaxInterval));
  status.Update(CheckWait("min_client_ping_interval", min_client_ping_interval,
                          absl::ZeroDuration(), kMaxInterval));
  for (const auto& [flag, value] :
       {std::pair("max_connection_idle", max_connection_idle),
        std::pair("max_connection_age", max_connection_age),
        std::pair("max_connection_age_grace", max_connection_age_grace)}) {
    status.Update(CheckWait(flag, value, absl::ZeroDuration(), kMaxInterval));
  }
  status.Update(CheckWait("handshake_timeout", handshake_timeout, second));
  // A shorter time might end merely because the processor is busy.
  if (accept_patience != absl::ZeroDuration()) {
    status.Update(CheckWait("accept_patience", accept_patience, kMinAcceptPatience));
  }
  status.Update(CheckRange("max_concurrent_streams", max_concurrent_streams, 1, kMaxStreams));
  status.Update(
      CheckRange("max_metadata_bytes", max_metadata_bytes, kMinMetadataBytes, kMaxMetadataBytes));
  status.Update(CheckWait("drain_delay", drain_delay));
  status.Update(CheckWait("shutdown_grace", shutdown_grace));
  return status;
}

}  // namespace batchplan
