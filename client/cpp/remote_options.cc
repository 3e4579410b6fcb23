#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "batchplan/remote_connection.h"

namespace batchplan {
namespace {

absl::Status CheckAtLeast(const char* field, absl::Duration value, absl::Duration least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("RemoteOptions.", field, " is ",
                                                 absl::FormatDuration(value), ", must be at least ",
                                                 absl::FormatDuration(least)));
}

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

}  // namespace batchplan
