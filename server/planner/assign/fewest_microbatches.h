// How many micro-batches any plan of a mini-batch has at least.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_FEWEST_MICROBATCHES_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_FEWEST_MICROBATCHES_H_

#include <cstdint>
#include <limits>
#include <span>

#include "server/planner/index.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// For each rank, equally many and as the pass's count rule allows: from the lower bounds of bin
// packing in the packed layout; in the padded layout from the fewest runs of the sorted order,
// which nothing beats. `possible`: a number that is known to suffice, above which no bound is
// looked for. O(n log n).
//
// Of a mini-batch, or of the items that a packed one consists of.
uint64_t FewestMicrobatchesPerRank(const PassInstance& pass,
                                   std::span<const SequenceIndex> mini_batch,
                                   uint64_t possible = std::numeric_limits<uint64_t>::max());

uint64_t FewestPackedPerRank(const PassInstance& pass, const PackItems& items,
                             uint64_t possible = std::numeric_limits<uint64_t>::max());

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_FEWEST_MICROBATCHES_H_
