#include "server/service/authentication.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

absl::StatusOr<std::string> JobPrefixOf(const Tokens& tokens, const Metadata& metadata) {
  // Two tokens leave open which of them counts.
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
  std::optional<std::string> prefix = tokens.table()->JobPrefixOf(header);
  if (!prefix.has_value()) {
    return absl::UnauthenticatedError("the call's token is not one of this server's");
  }
  return *std::move(prefix);
}

}  // namespace

grpc::Status TokenProcessor::Process(const InputMetadata& metadata,
                                     grpc::AuthContext* /*connection*/,
                                     OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) {
  const std::string_view path = ValueOf(metadata, ":path");
  if (path.starts_with(kHealthService)) return grpc::Status::OK;
  const absl::Status status = JobPrefixOf(*tokens_, metadata).status();
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

}  // namespace batchplan
