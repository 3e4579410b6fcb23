#include "server/service/limits.h"

#include "absl/strings/str_cat.h"
#include "server/fitting/step_report.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"
#include "server/service/request_cost.h"
#include "server/service/rpc_status.h"

namespace batchplan {
namespace {

static_assert(kMaxIdBytes <= OutlinedString::kMaxKeptBytes);

absl::Status CheckOutlinedId(const char* field, const OutlinedString& id) {
  if (id.bytes == id.text.size()) return CheckId(field, id.text);
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", id.bytes, " bytes, must have at most ", kMaxIdBytes));
}

absl::Status CheckCount(const char* field, uint64_t count, uint64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries; the limit is ", limit));
}

}  // namespace

absl::Status CheckLimits(const RequestOutline& outline, const RequestLimits& limits) {
  absl::Status status = CheckOutlinedId("job_id", outline.job_id);
  status.Update(CheckOutlinedId("request_id", outline.request_id));
  if (const uint64_t planned = SequencesPlanned(outline); planned > limits.max_sequences) {
    const std::string in_all =
        outline.passes > 1 ? absl::StrCat(" in ", outline.passes, " passes, ", planned, " in all")
                           : "";
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("manifest.lengths has ", outline.sequences, " sequences", in_all,
                     ", more than the server's max_sequences=", limits.max_sequences)));
  }
  // Each pass may have one for every sequence besides.
  if (const uint64_t least = LeastMicrobatches(outline), planned = SequencesPlanned(outline);
      least > kMaxEmptyMicrobatches && least - kMaxEmptyMicrobatches > planned) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        "min_microbatches and microbatch_count_multiple ask for ", least,
        " micro-batches over all passes, mini-batches and the ranks of data_parallel ",
        outline.data_parallel, ", more than ", kMaxEmptyMicrobatches,
        " beyond one a sequence and pass, the limit where allow_empty_microbatches is set")));
  }
  // Parsed, an empty entry takes a hundred times what it takes on the wire.
  status.Update(CheckCount("passes", outline.passes, kMaxPasses));
  status.Update(CheckCount("microbatches", outline.microbatches, kMaxReportedMicrobatches));
  return status;
}

absl::Status CheckAnswerFits(const RequestOutline& outline, uint64_t max_message_bytes) {
  const uint64_t bytes = LeastAnswerBytes(outline);
  if (bytes <= max_message_bytes) return absl::OkStatus();
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the plan takes at least ", bytes,
                   " bytes, more than the server's max_message_bytes=", max_message_bytes));
  SetRetryAfter(-absl::InfiniteDuration(), &status);
  return status;
}

}  // namespace batchplan
