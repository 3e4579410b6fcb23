// What each pass of a request holds, before any of its lengths are looked at.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_LIMITS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_LIMITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/context/context_sizes.h"
#include "server/planner/lengths.h"
#include "server/planner/options.h"

namespace batchplan {

// One entry a pass.
struct PassLimits {
  // The length multiple; empty with dynamic_context.
  std::vector<uint32_t> multiples;
  // With dynamic_context what groups of each size hold; else empty.
  std::vector<std::vector<GroupLimits>> groups;
  // The longest sequence that all passes hold.
  LengthLimit longest;
};

// Of valid options. InvalidArgument, naming the field, if a pass holds no sequence at all.
absl::StatusOr<PassLimits> PassLimitsOf(const PlanOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_LIMITS_H_
