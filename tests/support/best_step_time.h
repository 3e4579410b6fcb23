// The least step time of tiny instances, found by trying everything. Lower bounds and solvers are
// tested against it; it shares no code with them.

#ifndef BATCHPLAN_TESTS_SUPPORT_BEST_STEP_TIME_H_
#define BATCHPLAN_TESTS_SUPPORT_BEST_STEP_TIME_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan::testing {

// The functions below accept up to this many items.
inline constexpr size_t kMaxBestStepTimeItems = 10;

// The least step time in lockstep, over all packings into any number of slots: the sum over slots
// of the costliest micro-batch. An item's cost is its load. Every item fits the limits alone. Tries
// all partitions into micro-batches (21,147 for nine items) and deals each by descending cost. That
// is optimal: in any dealing, the s-th costliest slot costs at least as much as the ((s - 1) *
// ranks + 1)-th costliest micro-batch.
uint64_t BestLockstep(const PackItems& items, const BinLimits& limits, uint32_t ranks);

// BestLockstep for exactly `microbatches` micro-batches, none of them empty; the largest number if
// there is no such packing.
uint64_t BestLockstep(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                      size_t microbatches);

// BestLockstep if item i stays on rank rank_of[i]. Tries all combinations of the ranks' partitions.
// With `equal_counts`, all ranks have equally many micro-batches, none empty; the largest number if
// that is impossible.
uint64_t BestLockstepOfRanks(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                             std::span<const uint32_t> rank_of, bool equal_counts = false);

// The least accumulated step time: the largest sum of a rank's costs. O(ranks^n).
uint64_t BestAccumulated(const PackItems& items, uint32_t ranks);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_BEST_STEP_TIME_H_
