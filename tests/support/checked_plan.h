// MakePlan for tests: no plan is looked at before the plan checker has seen it.

#ifndef BATCHPLAN_TESTS_SUPPORT_CHECKED_PLAN_H_
#define BATCHPLAN_TESTS_SUPPORT_CHECKED_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::testing {

// MakePlan, and a test failure if the plan breaks one of its promises.
absl::StatusOr<Plan> MakeCheckedPlan(const Manifest& manifest, const PlanOptions& options);
absl::StatusOr<Plan> MakeCheckedPlan(const std::vector<uint32_t>& lengths,
                                     const PlanOptions& options);

// Whether `status` is a refusal as the planner owes it: InvalidArgument, with the name of the field
// to change.
bool IsClearRefusal(const absl::Status& status);

// One pass, packed, on `data_parallel` ranks.
PlanOptions PackedOptions(uint32_t budget, Packer packer, uint32_t data_parallel = 1,
                          Sharding sharding = Sharding::kDealBins);

// The true lengths in each micro-batch of a pass.
std::vector<std::vector<uint32_t>> LengthsOf(const PassPlan& pass);

// The manifest positions in each micro-batch of a pass.
std::vector<std::vector<uint32_t>> MicrobatchesOf(const PassPlan& pass);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_CHECKED_PLAN_H_
