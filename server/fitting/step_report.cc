#include "server/fitting/step_report.h"

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

absl::Status Check(const ReportedMicrobatch& microbatch, size_t index) {
  const auto wrong = [index](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("microbatches[", index, "].", parts...));
  };
  const uint64_t tokens = microbatch.tokens;
  if (tokens < 1 || tokens > kMaxReportedTokens) {
    return wrong("tokens is ", tokens, "; it must be between 1 and ", kMaxReportedTokens);
  }
  if (microbatch.tokens_squared < tokens || microbatch.tokens_squared > tokens * tokens) {
    return wrong("tokens_squared is ", microbatch.tokens_squared, ", but the squares of lengths ",
                 "that sum up to tokens=", tokens, " sum up to between that and ", tokens * tokens);
  }
  // Not a number is outside too.
  if (!(microbatch.milliseconds >= kMinReportedMilliseconds &&
        microbatch.milliseconds <= kMaxReportedMilliseconds)) {
    return wrong("milliseconds is ", microbatch.milliseconds, "; it must be between ",
                 kMinReportedMilliseconds, " and ", kMaxReportedMilliseconds);
  }
  if (microbatch.peak_bytes > kMaxReportedBytes) {
    return wrong("peak_bytes is ", microbatch.peak_bytes, "; the limit is ", kMaxReportedBytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status StepReport::Validate() const {
  if (microbatches.size() > kMaxReportedMicrobatches) {
    return absl::InvalidArgumentError(absl::StrCat("microbatches has ", microbatches.size(),
                                                   " entries; the limit is ",
                                                   kMaxReportedMicrobatches));
  }
  for (size_t i = 0; i < microbatches.size(); ++i) {
    absl::Status status = Check(microbatches[i], i);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace batchplan
