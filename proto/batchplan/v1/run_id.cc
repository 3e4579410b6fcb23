#include "proto/batchplan/v1/run_id.h"

#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// A variable that must be a number, as all of these are; nothing for any other text.
std::optional<uint64_t> Number(const std::string& text) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

}  // namespace

std::string DefaultRunId(uint32_t world_size,
                         const std::function<std::string(const char* name)>& variable) {
  if (!variable("TORCHELASTIC_RUN_ID").empty()) return "";
  const std::string heterogeneous = variable("SLURM_HET_JOB_ID");
  const std::optional<uint64_t> job =
      Number(heterogeneous.empty() ? variable("SLURM_JOB_ID") : heterogeneous);
  const std::optional<uint64_t> step = Number(variable("SLURM_STEP_ID"));
  const std::optional<uint64_t> tasks = Number(variable("SLURM_STEP_NUM_TASKS"));
  if (!job.has_value() || !step.has_value() || tasks.value_or(0) < world_size) return "";
  const uint64_t restarts = Number(variable("SLURM_RESTART_COUNT")).value_or(0);
  return absl::StrCat("slurm-", *job, ".", *step, ".r", restarts);
}

std::string DefaultRunId(uint32_t world_size) {
  return DefaultRunId(world_size, [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
}

}  // namespace batchplan
