#include "server/service/limits.h"

#include "absl/strings/str_cat.h"
#include "server/fitting/step_report.h"
#include "server/planner/options.h"

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
  if (outline.sequences > limits.max_sequences) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("manifest.lengths has ", outline.sequences,
                     " sequences, more than the server's max_sequences=", limits.max_sequences)));
  }
  // Parsed, an empty entry takes a hundred times what it takes on the wire.
  status.Update(CheckCount("passes", outline.passes, kMaxPasses));
  status.Update(CheckCount("microbatches", outline.microbatches, kMaxReportedMicrobatches));
  return status;
}

}  // namespace batchplan
