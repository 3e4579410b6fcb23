// SHARDING_BALANCED: ranks and micro-batches found together.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_BALANCED_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_BALANCED_H_

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/assign/deal.h"
#include "server/planner/index.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// The ways in which the reference presets assign, under the limits of `pass`; each once.
std::vector<PassOptions> ReferenceMethods(const PassOptions& pass, const Topology& topology);

// Placements of one mini-batch, the one with the least predicted step time first: the balanced
// solver's own and those of `references`, so that the best is never worse than they are; the
// references are left out at Effort::kFast, and of large mini-batches at kDefault. The solver
// starts from the fewest micro-batches that the constraints allow and takes more where that
// shortens the step. The slots of a rank are sorted by cost.
//
// InvalidArgument, beginning with `where`, if there is none; Cancelled if `stop` is requested.
absl::StatusOr<std::vector<Dealt>> PlaceBalanced(const PassInstance& pass,
                                                 std::span<const PassInstance> references,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 uint64_t seed, absl::string_view where,
                                                 const std::stop_token& stop);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_BALANCED_H_
