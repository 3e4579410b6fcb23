#include "server/store/step_store.h"

#include "absl/strings/str_cat.h"

namespace batchplan {

std::string DescribeStep(const StepKey& key) {
  std::string description = absl::StrCat("step ", key.step, " of job \"", key.job_id, "\"");
  if (!key.run_id.empty()) absl::StrAppend(&description, ", run \"", key.run_id, "\"");
  return description;
}

absl::Status NotCompleteError(const StepKey& key) {
  return absl::NotFoundError(absl::StrCat(DescribeStep(key), " is not complete"));
}

}  // namespace batchplan
