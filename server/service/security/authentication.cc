#include "server/service/security/authentication.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "proto/batchplan/v1/status.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

constexpr std::string_view kHealthService = "/grpc.health.v1.Health/";
constexpr absl::string_view kScheme = "Bearer ";

std::string_view ValueOf(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return {};
  return {found->second.data(), found->second.size()};
}

// The call's only bearer token, which may be unknown.
absl::StatusOr<std::string_view> TokenOf(const Metadata& metadata) {
  // With two tokens it is unclear which one counts.
  if (metadata.count("authorization") > 1) {
    return absl::UnauthenticatedError("the call has more than one authorization header");
  }
  std::string_view header = ValueOf(metadata, "authorization");
  // Schemes are not case-sensitive.
  if (!absl::StartsWithIgnoreCase(absl::string_view(header.data(), header.size()), kScheme)) {
    return absl::UnauthenticatedError(
        "this server serves calls with a token only: authorization: Bearer TOKEN");
  }
  header.remove_prefix(kScheme.size());
  return header;
}

absl::StatusOr<std::string> JobPrefixOf(const Tokens& tokens, const Metadata& metadata) {
  const absl::StatusOr<std::string_view> token = TokenOf(metadata);
  if (!token.ok()) return token.status();
  std::optional<std::string> prefix = tokens.table()->JobPrefixOf(*token);
  if (!prefix.has_value()) {
    return absl::UnauthenticatedError("the call's token is not one of this server's");
  }
  return *std::move(prefix);
}

}  // namespace

grpc::Status TokenProcessor::Process(const InputMetadata& metadata,
                                     grpc::AuthContext* /*connection*/,
                                     OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) {
  const Tokens& tokens = *tokens_.load(std::memory_order_acquire);
  const std::string_view path = ValueOf(metadata, ":path");
  if (path.starts_with(kHealthService)) return grpc::Status::OK;
  const absl::Status status = JobPrefixOf(tokens, metadata).status();
  if (status.ok()) return grpc::Status::OK;
  metrics_->RecordTurnedAway(path.substr(path.rfind('/') + 1), status.code());
  if (const std::optional<uint64_t> left_out = log_limit_.Admit(absl::Now())) {
    if (*left_out > 0) Log(Severity::kWarning, "refused_not_logged", {{"calls", *left_out}});
    Log(Severity::kWarning, "refused",
        {{"method", path},
         {"code", absl::StatusCodeToString(status.code())},
         {"error", std::string(status.message())}});
  }
  return ToGrpcStatus(status);
}

absl::Status CheckJobAllowed(const Tokens* tokens, const grpc::ServerContextBase& call,
                             std::string_view job_id) {
  if (tokens == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::string> prefix = JobPrefixOf(*tokens, call.client_metadata());
  if (!prefix.ok()) return prefix.status();
  if (job_id.starts_with(*prefix)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("job_id is \"", std::string(job_id),
                                                  "\", but the call's token is for jobs \"",
                                                  *prefix, "...\" only"));
}

std::string OwnerOf(const Tokens* tokens, const grpc::ServerContextBase& call) {
  if (tokens == nullptr) return OwnerOfPeer(call.peer());
  const absl::StatusOr<std::string_view> token = TokenOf(call.client_metadata());
  if (!token.ok()) return "";
  const std::optional<std::string> name = tokens->table()->NameOf(*token);
  return name.has_value() ? absl::StrCat("token:", *name) : "";
}

std::string OwnerOfPeer(std::string_view peer) {
  const size_t colon = peer.find(':');
  const std::string_view scheme = peer.substr(0, colon);
  if (colon == std::string_view::npos || (scheme != "ipv4" && scheme != "ipv6")) {
    return std::string(scheme);
  }
  // Brackets are escaped if gRPC writes the address as a URI.
  std::string address =
      absl::StrReplaceAll(absl::string_view(peer.data() + colon + 1, peer.size() - colon - 1),
                          {{"%5B", "["}, {"%5b", "["}, {"%5D", "]"}, {"%5d", "]"}, {"%25", "%"}});
  if (const size_t port = address.rfind(':'); port != std::string::npos) address.resize(port);
  if (scheme == "ipv4") return absl::StrCat("ipv4:", address);
  // Removes brackets, and the zone of a link-local address.
  if (address.starts_with('[')) address.erase(0, 1);
  address.resize(std::min(address.find_first_of("%]"), address.size()));
  in6_addr parsed{};
  if (inet_pton(AF_INET6, address.c_str(), &parsed) != 1) return absl::StrCat("ipv6:", address);
  constexpr size_t kNetworkBytes = 8;
  std::fill(std::begin(parsed.s6_addr) + kNetworkBytes, std::end(parsed.s6_addr), uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text{};
  return absl::StrCat("ipv6:", inet_ntop(AF_INET6, &parsed, text.data(), text.size()), "/64");
}

}  // namespace batchplan
