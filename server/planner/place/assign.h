// Stage 3, assign: sequences to ranks and slots, for all passes of the request.
//
// From the outside in, each file calling only those below it:
//   assign.h: every mini-batch, and the passes that go over all of them.
//   batch_passes.h: which pass leads, which ones keep to mini-batches, and the limits of all.
//   mini_batch_placer.h: one mini-batch in all passes that keep to it; other ways where one fails.
//   fill_shares.h: where the manifest gives the ranks, the best of several ways.
//   place.h: one mini-batch in one pass, by a named sharding or as the best of several.
//   reference_methods.h: the ways of other planners.
// Then, in ranks/:
//   solve.h: the balanced solver, which finds micro-batches and ranks together. solve_lockstep.h,
//     solve_pipeline.h: how many there are, and what they hold.
//   fill_ranks.h: each rank's share into micro-batches. share_balancer.h: those of all ranks made
//     alike.
//   shard.h, search_ranks.h: units to ranks. more_slots.h: slots beyond the fewest.
//   bounds.h: the shortest a step can be.
//   fill_bins.h: items into a number of bins. conflicts.h: the refusals of all of them.
//
// place_slots.h does this for groups of ranks that differ in size.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_ASSIGN_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_ASSIGN_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/pass/placement.h"
#include "server/planner/place/batch_passes.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Gives every sequence a rank, the same in all passes, and every pass its micro-batches: one
// Placement a mini-batch for each pass, or a single one if the pass ignores mini-batches.
//
// If the manifest gives ranks, they are kept and only micro-batches are looked for. Otherwise the
// first pass's sharding decides on the ranks. If that leaves a pass without a legal number of
// micro-batches, other divisions are tried: the bins of a packed mini-batch dealt, equally many
// sequences on each rank, and at last, for a few sequences, every division. A sharding that names
// the rank of each sequence (STRIDE_SORTED), or their order (CONTIGUOUS), is kept.
//
// Mini-batches and passes divide the allowance; what one leaves is for the next. Later passes that
// are filled alike are worked out once. `findings` are those of each mini-batch
// (BatchPasses::mini_batches), or empty.
//
// InvalidArgument, naming pass, mini-batch and the limits in conflict, if nothing legal is found;
// Cancelled if a stop is requested. The sink's content is then useless.
absl::Status AssignAll(const BatchPasses& passes, uint64_t seed, const Allowance& allowance,
                       PlacementSink& sink, std::span<LockstepFindings> findings = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_ASSIGN_H_
