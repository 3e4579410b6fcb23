// Promise 7: what was taken of what waits is what may be taken, and the rest waits whole.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_SELECTION_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checker/request_loads.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

// What was taken, as if it were a request of its own: positions are those in its own arrays.
struct TakenPart {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> group_ids;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> kinds;
  // Where its sequences stand in the manifest, ascending.
  std::vector<uint32_t> positions;
  // Of it; nothing that is not taken is excluded. Items of loads stay those of the whole manifest.
  Plan plan;
};

// Internal if what is too old or dropped is not listed as that, true length and all, ascending with
// the other excluded ones; if plan.deferred is not ascending, or has what is not waiting; if a pass
// has what was not taken; if a group is torn; if what must be taken now waits; if what waits is
// passed too often; or if the target is missed. options.selection is set, and `loads` are those of
// the manifest.
absl::StatusOr<TakenPart> CheckSelection(const Manifest& manifest, const PlanOptions& options,
                                         const RequestLoads& loads, const Plan& plan);

// Internal unless the metrics of what is trained and what waits are those of a pass whose positions
// are known to be in range, as those of plan.deferred are.
absl::Status CheckTakenMetrics(const Manifest& manifest, const Plan& plan);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_SELECTION_H_
