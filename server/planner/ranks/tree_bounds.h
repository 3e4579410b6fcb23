// Lower bounds where sequences share.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_TREE_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_TREE_BOUNDS_H_

#include <cstdint>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// The fewest micro-batches that hold these sequences. `pass` has prefixes.
uint64_t FewestTreeMicrobatches(const Pass& pass, std::span<const SequenceIndex> sequences);

// What `ranks` ranks that have these sequences take at least, without the fixed costs of
// micro-batches. `pass` has prefixes.
Cost TreeBound(const Pass& pass, std::span<const SequenceIndex> sequences, uint32_t ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_TREE_BOUNDS_H_
