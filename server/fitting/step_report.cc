#include "server/fitting/step_report.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/ids.h"

namespace batchplan {
namespace {

absl::Status CheckNames(const std::vector<std::string>& loads) {
  if (loads.size() > kMaxReportedLoads) {
    return absl::InvalidArgumentError(
        absl::StrCat("loads has ", loads.size(), " names; the limit is ", kMaxReportedLoads));
  }
  for (size_t i = 0; i < loads.size(); ++i) {
    const std::string where = absl::StrCat("loads[", i, "]");
    if (loads[i].empty() || loads[i].size() > kMaxReportedLoadName) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, " has ", loads[i].size(), " bytes; it must have 1 to ", kMaxReportedLoadName));
    }
    if (absl::Status status = CheckId(where, loads[i]); !status.ok()) return status;
    const auto own = loads.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(loads.begin(), own, loads[i]) == own) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is \"", absl::Utf8SafeCEscape(loads[i]),
                     "\", which an earlier one is; names are unique"));
  }
  return absl::OkStatus();
}

absl::Status CheckLoads(const ReportedMicrobatch& microbatch, size_t index, size_t loads) {
  const std::string where = absl::StrCat("microbatches[", index, "].loads");
  if (microbatch.loads.size() != loads) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has ", microbatch.loads.size(),
                                                   " sums, but loads has ", loads,
                                                   " names; give one for each"));
  }
  for (size_t i = 0; i < loads; ++i) {
    const double load = microbatch.loads[i];
    // In this form NaN is refused too.
    if (load == 0 || (load >= kMinReportedLoad && load <= kMaxReportedLoad)) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, "[", i, "] is ", load,
                                                   "; it must be 0, or between ", kMinReportedLoad,
                                                   " and ", kMaxReportedLoad));
  }
  return absl::OkStatus();
}

absl::Status Check(const ReportedMicrobatch& microbatch, size_t index, uint32_t data_parallel) {
  const auto wrong = [index](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("microbatches[", index, "].", parts...));
  };
  const uint64_t tokens = microbatch.tokens;
  const bool placed = microbatch.rank.has_value() && microbatch.slot.has_value();
  if ((microbatch.empty() && !placed) || tokens > kMaxReportedTokens) {
    return wrong("tokens is ", tokens, "; it must be between 1 and ", kMaxReportedTokens,
                 ", or 0 of an empty micro-batch whose rank and slot are set");
  }
  if (microbatch.tokens_squared < tokens || microbatch.tokens_squared > tokens * tokens) {
    return wrong("tokens_squared is ", microbatch.tokens_squared, ", but the squares of lengths ",
                 "that sum up to tokens=", tokens, " sum up to between that and ", tokens * tokens);
  }
  // In this form NaN is refused too.
  if (!(microbatch.milliseconds >= kMinReportedMilliseconds &&
        microbatch.milliseconds <= kMaxReportedMilliseconds)) {
    return wrong("milliseconds is ", microbatch.milliseconds, "; it must be between ",
                 kMinReportedMilliseconds, " and ", kMaxReportedMilliseconds);
  }
  // In this form NaN is refused too.
  const double share = microbatch.model_share;
  if (!(share > 0 && share <= 1)) {
    return wrong("model_share is ", share, "; it must be between 0 and 1, and 0 is read as 1");
  }
  if (microbatch.milliseconds / share > kMaxReportedMilliseconds) {
    return wrong("milliseconds is ", microbatch.milliseconds, " of model_share=", share,
                 "; what the whole model takes by that must be at most ", kMaxReportedMilliseconds);
  }
  if (microbatch.context_parallel < 1 ||
      microbatch.context_parallel > kMaxReportedContextParallel) {
    return wrong("context_parallel is ", microbatch.context_parallel, "; the limit is ",
                 kMaxReportedContextParallel);
  }
  if (microbatch.peak_bytes > kMaxReportedBytes) {
    return wrong("peak_bytes is ", microbatch.peak_bytes, "; the limit is ", kMaxReportedBytes);
  }
  // Every sequence has at least one token.
  if (microbatch.sequences > tokens) {
    return wrong("sequences is ", microbatch.sequences, "; it must be at most its tokens, ", tokens,
                 ", or 0 if it is not known");
  }
  if (microbatch.rank >= kMaxReportedRanks) {
    return wrong("rank is ", *microbatch.rank, "; the limit is ", kMaxReportedRanks - 1);
  }
  if (data_parallel > 0 && microbatch.rank >= data_parallel) {
    return wrong("rank is ", *microbatch.rank, "; it must be below data_parallel=", data_parallel);
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
  // In this form NaN is refused too.
  if (!(predicted_milliseconds >= 0 && predicted_milliseconds <= kMaxReportedMilliseconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("predicted_step_time is ", predicted_milliseconds,
                     "; it must be between 0 and ", kMaxReportedMilliseconds, " milliseconds"));
  }
  if (data_parallel > kMaxReportedRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_parallel is ", data_parallel, "; the limit is ", kMaxReportedRanks));
  }
  if (absl::Status status = CheckNames(loads); !status.ok()) return status;
  for (size_t i = 0; i < microbatches.size(); ++i) {
    absl::Status status = Check(microbatches[i], i, data_parallel);
    if (status.ok()) status = CheckLoads(microbatches[i], i, loads.size());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace batchplan
