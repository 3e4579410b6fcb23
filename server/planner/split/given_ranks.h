// Ranks that the manifest gives, as a batch was dispatched before it is planned. The planner then
// makes the micro-batches of all ranks, and no sequence changes its rank.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_GIVEN_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_GIVEN_RANKS_H_

#include "absl/status/status.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {

// OK if the manifest gives no ranks. Otherwise InvalidArgument, naming field, value and limit, if
// the number of ranks is not that of sequences, if a rank is not below data_parallel, if a group
// that must stay on one rank has several, if the first pass names a sharding, or with
// dynamic_context. The options are valid. O(n).
absl::Status CheckGivenRanks(const Manifest& manifest, const PlanOptions& options,
                             const Groups& groups);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_GIVEN_RANKS_H_
