// SHARDING_BALANCED: ranks and micro-batches found together.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_BALANCED_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_BALANCED_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/assign/deal.h"
#include "server/planner/index.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// The ways in which the reference presets assign, under the limits of `pass`; each once.
std::vector<PassOptions> ReferenceMethods(const PassOptions& pass, const Topology& topology);

// Placements of one mini-batch, the `most` with the least predicted step time, the least first: the
// balanced solver's own and those of `references`, so that the best is never worse than they are;
// the references are left out at Effort::kFast, of large mini-batches at kDefault, and once the
// allowance is spent. The solver starts from the fewest micro-batches that the constraints allow
// and takes more where that shortens the step. Step times are those of ranks whose slots are sorted
// by cost, which is left to the caller (OrderMicrobatches).
//
// InvalidArgument, beginning with `where`, if there is none; Cancelled if a stop is requested.
absl::StatusOr<std::vector<MiniBatchPlacement>> PlaceBalanced(
    const PassInstance& pass, std::span<const PassInstance> references,
    std::span<const SequenceIndex> mini_batch, uint64_t seed, size_t most, absl::string_view where,
    const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_BALANCED_H_
