#include "server/planner/request/count_multiples.h"

#include <cstddef>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// The limit for a pass, and for all passes together.
constexpr uint64_t kMaxCountMultiple = uint64_t{1} << 20;

absl::Status CheckPass(const PlanOptions& options, size_t i) {
  const PassOptions& pass = options.passes[i];
  const uint32_t multiple = pass.sequence_count_multiple;
  const std::string field = absl::StrCat("passes[", i, "].sequence_count_multiple");
  if (multiple == 0 || multiple > kMaxCountMultiple) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", multiple, "; it must be 1 to ", kMaxCountMultiple));
  }
  if (multiple == 1) return absl::OkStatus();
  const auto conflict = [&](absl::string_view other) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", multiple, ", but ", other, "; set one of them otherwise"));
  };
  if (pass.max_sequences_per_microbatch > 0 && pass.max_sequences_per_microbatch < multiple) {
    return conflict(
        absl::StrCat("max_sequences_per_microbatch is ", pass.max_sequences_per_microbatch));
  }
  if (options.overlong == OverlongPolicy::kAlone) {
    return conflict("overlong is OVERLONG_POLICY_ALONE, and a micro-batch of one is no multiple");
  }
  if (options.selection && options.selection->max_tokens > 0) {
    return conflict("selection.max_tokens is set, which takes any number of sequences");
  }
  if (options.topology.dynamic_context) return conflict("topology.dynamic_context is set");
  if (IsOfTrees(options.passes.front().sharding)) {
    return conflict(
        absl::StrCat("passes[0].sharding is ", NameOf(options.passes.front().sharding)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCountMultiples(const PlanOptions& options) {
  uint64_t together = 1;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (absl::Status status = CheckPass(options, i); !status.ok()) return status;
    together = std::lcm(together, uint64_t{options.passes[i].sequence_count_multiple});
    if (together <= kMaxCountMultiple) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "passes[", i, "].sequence_count_multiple is ", options.passes[i].sequence_count_multiple,
        ", whose least common multiple with those of the passes before it is ", together,
        "; the limit is ", kMaxCountMultiple));
  }
  return absl::OkStatus();
}

uint32_t RankMultipleOf(const PlanOptions& options) {
  uint32_t multiple = 1;
  for (const PassOptions& pass : options.passes) {
    multiple = std::lcm(multiple, pass.sequence_count_multiple);
  }
  return multiple;
}

}  // namespace batchplan
