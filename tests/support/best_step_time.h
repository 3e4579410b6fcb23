// The least step time of tiny instances, by trying everything: the oracle that lower bounds and
// solvers are held against. Shares no code with them.

#ifndef BATCHPLAN_TESTS_SUPPORT_BEST_STEP_TIME_H_
#define BATCHPLAN_TESTS_SUPPORT_BEST_STEP_TIME_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan::testing {

// The items that the functions below take at most.
inline constexpr size_t kMaxBestStepTimeItems = 10;

// The least sum over slots of the maximum over ranks of a micro-batch's cost, over all packings
// into any number of slots; the cost of an item is its load. Every item fits the limits alone.
// Tries all partitions into micro-batches, of which nine items have 21,147, and deals each by cost,
// which is best: the s-th costliest slot is at least as costly as its costliest micro-batch when
// all before it are full of costlier ones.
uint64_t BestLockstep(const PackItems& items, const BinLimits& limits, uint32_t ranks);

// The same over all packings into exactly so many micro-batches, none empty; the largest number if
// there is none.
uint64_t BestLockstep(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                      size_t microbatches);

// As the first where item i stays on rank rank_of[i]: tries all partitions of each rank beside all
// of the others. With `equal_counts` every rank has as many micro-batches, none of them empty; the
// largest number if that can't be.
uint64_t BestLockstepOfRanks(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                             std::span<const uint32_t> rank_of, bool equal_counts = false);

// The least maximum over ranks of the sum of its costs. O(ranks^n).
uint64_t BestAccumulated(const PackItems& items, uint32_t ranks);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_BEST_STEP_TIME_H_
