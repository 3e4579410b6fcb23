#include "tests/support/checked_plan.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/checker/check_plan.h"
#include "server/planner/make_plan.h"

namespace batchplan::testing {
namespace {

std::vector<std::vector<uint32_t>> Cut(const std::vector<uint32_t>& values,
                                       const std::vector<uint32_t>& offsets) {
  std::vector<std::vector<uint32_t>> parts;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    parts.emplace_back(values.begin() + offsets[i], values.begin() + offsets[i + 1]);
  }
  return parts;
}

}  // namespace

absl::StatusOr<Plan> MakeCheckedPlan(const Manifest& manifest, const PlanOptions& options) {
  absl::StatusOr<Plan> plan = MakePlan(manifest, options);
  if (plan.ok()) {
    const absl::Status checked = CheckPlan(manifest, options, *plan);
    EXPECT_TRUE(checked.ok()) << checked;
  }
  return plan;
}

absl::StatusOr<Plan> MakeCheckedPlan(const std::vector<uint32_t>& lengths,
                                     const PlanOptions& options) {
  return MakeCheckedPlan(Manifest{.lengths = lengths}, options);
}

bool IsClearRefusal(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return false;
  for (const absl::string_view field :
       {"manifest.", "topology.", "mini_batches.", "selection.", "cost_model", "pipeline.",
        "overlong", "passes[", "data_parallel", "allow_empty_microbatches", "passes is empty"}) {
    if (absl::StrContains(status.message(), field)) return true;
  }
  return false;
}

PlanOptions PackedOptions(uint32_t budget, Packer packer, uint32_t data_parallel,
                          Sharding sharding) {
  PlanOptions options;
  options.topology.data_parallel = data_parallel;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = budget;
  pass.packer = packer;
  pass.sharding = sharding;
  return options;
}

std::vector<std::vector<uint32_t>> LengthsOf(const PassPlan& pass) {
  return Cut(pass.sequence_lengths, pass.microbatch_offsets);
}

std::vector<std::vector<uint32_t>> MicrobatchesOf(const PassPlan& pass) {
  return Cut(pass.sequence_index, pass.microbatch_offsets);
}

}  // namespace batchplan::testing
