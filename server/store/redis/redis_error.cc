#include "server/store/redis/redis_error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

constexpr size_t kMaxText = 200;

// The words errors begin with.
constexpr std::array<std::string_view, 1> kNoRoom = {"OOM"};
constexpr std::array<std::string_view, 8> kPasses = {"LOADING",    "BUSY",        "MASTERDOWN",
                                                     "READONLY",   "CLUSTERDOWN", "TRYAGAIN",
                                                     "NOREPLICAS", "MISCONF"};
constexpr std::array<std::string_view, 6> kToBePutRight = {"NOAUTH", "WRONGPASS", "NOPERM",
                                                           "DENIED", "MOVED",     "ASK"};

bool IsWordByte(char byte) { return std::isalnum(static_cast<unsigned char>(byte)) != 0; }

// Whether `text` is the error `code`, or an older Redis' "ERR Error running script ... : -CODE
// ...".
bool HasCode(std::string_view text, std::string_view code) {
  if (text.starts_with(code)) {
    return text.size() == code.size() || !IsWordByte(text[code.size()]);
  }
  if (!text.starts_with("ERR Error running script")) return false;
  const std::string wrapped = absl::StrCat(": -", std::string(code), " ");
  return text.find(wrapped) != std::string_view::npos;
}

bool HasOneOf(std::string_view text, std::span<const std::string_view> codes) {
  return std::any_of(codes.begin(), codes.end(),
                     [text](std::string_view code) { return HasCode(text, code); });
}

absl::StatusCode CodeOf(std::string_view text) {
  if (HasOneOf(text, kNoRoom)) return absl::StatusCode::kResourceExhausted;
  if (HasOneOf(text, kPasses) || text.starts_with("ERR max number of clients")) {
    return absl::StatusCode::kUnavailable;
  }
  // The second is NOAUTH to who begins with a long command.
  if (HasOneOf(text, kToBePutRight) || text.starts_with("ERR Protocol error: unauthenticated")) {
    return absl::StatusCode::kFailedPrecondition;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

absl::Status StatusFromRedisError(std::string_view text) {
  return {CodeOf(text), std::string(text.substr(0, kMaxText))};
}

absl::Status ExplainRedisFailure(const std::string& redacted_url, const absl::Status& status) {
  const std::string store = absl::StrCat("the rendezvous store ", redacted_url);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return absl::UnavailableError(
          absl::StrCat(store, " can't be reached: ", status.message(),
                       "; JoinBatch and fitted costs wait for it, PlanBatch does not need it; "
                       "check --rendezvous_store, then retry"));
    case absl::StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(
          absl::StrCat(store, " has no room: ", status.message(),
                       "; raise its maxmemory or wait until older steps are forgotten, then "
                       "retry"));
    case absl::StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(
          absl::StrCat(store, " does not let this server in: ", status.message(),
                       "; check user, password and database in --rendezvous_store, and that it "
                       "leads to a Redis that is no cluster"));
    default:
      return {status.code(),
              absl::StrCat(store, " answers what it should not: ", status.message())};
  }
}

}  // namespace batchplan
