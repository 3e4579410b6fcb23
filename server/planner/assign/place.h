// Sequences to ranks and micro-batches, as the options name the method.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_PLACE_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_PLACE_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/assign/deal.h"
#include "server/planner/index.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// Whether whole bins may go to ranks.
bool CanDeal(const PassInstance& pass);

// Whether they do, by the pass's own sharding.
bool Deals(const PassInstance& pass);

// One mini-batch by the pass's sharding: packed and dealt, or divided among the ranks and filled
// inside them.
//
// InvalidArgument, beginning with `where`, if that gives no legal number of micro-batches;
// Cancelled if a stop is requested.
absl::StatusOr<MiniBatchPlacement> Place(const PassInstance& pass,
                                         std::span<const SequenceIndex> mini_batch, uint64_t seed,
                                         absl::string_view where, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_PLACE_H_
