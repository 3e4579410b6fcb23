// What each pass of a request holds, whatever the lengths of the manifest.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_LIMITS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_LIMITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/options.h"

namespace batchplan {

// One entry a pass.
struct PassLimits {
  // The sizes that the pass's groups may have, ascending. Without dynamic_context there is one, of
  // topology.context_parallel ranks, and its capacity is the token budget rounded down to the
  // multiple.
  std::vector<std::vector<GroupLimits>> sizes;
  // The limit on the length of a sequence that all passes hold.
  LengthLimit longest;
};

// Of valid options. InvalidArgument, naming the field, if a pass holds no sequence at all, or if a
// row bucket is no multiple of what lengths are rounded up to.
absl::StatusOr<PassLimits> PassLimitsOf(const PlanOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_LIMITS_H_
