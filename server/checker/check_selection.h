// Promise 7: the selection took what it may take, and all else waits.

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

// The taken sequences as a request of their own, with positions in its own arrays.
struct TakenPart {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> group_ids;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> kinds;
  // The positions of its sequences in the manifest, ascending.
  std::vector<uint32_t> positions;
  // The plan in these positions, without excluded sequences that are not taken. Items of loads stay
  // those of the whole manifest.
  Plan plan;
};

// Internal if a sequence that is too old or dropped is not listed so, with its true length,
// ascending with the other excluded ones; if plan.deferred is not ascending, or has a sequence that
// does not wait; if a pass has a sequence that was not taken; if a group is torn; if a unit waits
// that must be taken now, or is passed too often; or if the target is missed. options.selection is
// set, and `loads` are those of the manifest.
absl::StatusOr<TakenPart> CheckSelection(const Manifest& manifest, const PlanOptions& options,
                                         const RequestLoads& loads, const Plan& plan);

// Internal unless the metrics of trained and waiting sequences are right. The positions of the
// passes and of plan.deferred are known to be in range.
absl::Status CheckTakenMetrics(const Manifest& manifest, const Plan& plan);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_SELECTION_H_
