// Stage 3 where slots divide a pool: every mini-batch of every pass into slots.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_SLOTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/planner/pass/placement.h"
#include "server/planner/place/batch_passes.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Gives every pass its slots, with each sequence on the same ranks in all passes: one placement a
// mini-batch for each pass, or a single one if the pass ignores mini-batches. Slots are in the
// order in which they run.
//
// The first pass that keeps to mini-batches leads, or if none does, the first pass. It gets the
// fastest slots found (lead_slots.h), in the order that it asks for. If the request's first pass
// names SHARDING_MEGATRON_DYNAMIC_CP, the lead has the slots of megatron_slots.h instead. The other
// passes follow (follow_ranks.h).
//
// If a pass can't follow, the faster of two other ways is kept: slower slots of the lead that all
// can follow, or slots within the limits of all passes. All passes run on groups of one size
// (fixed_sizes.h) if that is faster still, or if nothing else is legal. The last resort is a lead
// with the slots of megatron_slots.h.
//
// InvalidArgument, naming pass, mini-batch and limits, if nothing legal is found; Cancelled if a
// stop is requested. The sink is empty then.
absl::Status PlaceSlots(const BatchPasses& passes, uint64_t seed, const Allowance& allowance,
                        PlacementSink& sink);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_SLOTS_H_
