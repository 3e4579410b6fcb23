// MakePlan for tests, which runs the plan checker on every plan.

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

// MakePlan; the test fails if the plan breaks a promise.
absl::StatusOr<Plan> MakeCheckedPlan(const Manifest& manifest, const PlanOptions& options);
absl::StatusOr<Plan> MakeCheckedPlan(const std::vector<uint32_t>& lengths,
                                     const PlanOptions& options);

// Whether `status` is a proper refusal: InvalidArgument, naming the field to change.
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
