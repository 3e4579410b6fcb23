#include "server/service/server_options.h"

#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

constexpr int64_t kMaxThreads = 1024;
// The planner's own limit.
constexpr int64_t kMaxSequences = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxQueuedPlans = 1'000'000;
constexpr int64_t kMaxQueuedSequences = int64_t{1} << 40;
// gRPC's sizes are ints.
constexpr int64_t kMinMessageBytes = 1024;
constexpr int64_t kMaxMessageBytes = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxPlanCacheBytes = int64_t{1} << 40;
constexpr absl::Duration kMaxWait = absl::Hours(1);

absl::Status CheckRange(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": must be ", low, " to ", high));
}

absl::Status CheckWait(const char* flag, absl::Duration value) {
  if (value >= absl::ZeroDuration() && value <= kMaxWait) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", absl::ToDoubleSeconds(value),
                                                 ": must be 0 to ", absl::ToInt64Seconds(kMaxWait),
                                                 " seconds"));
}

// HOST:PORT with a host that is one word: the libraries behind the listeners give lists and
// suffixes meanings of their own.
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
  status.Update(CheckRange("plan_cache_bytes", plan_cache_bytes, 0, kMaxPlanCacheBytes));
  status.Update(CheckWait("drain_delay", drain_delay));
  status.Update(CheckWait("shutdown_grace", shutdown_grace));
  return status;
}

}  // namespace batchplan
