// Sharding: the rank of each unit of a mini-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SHARD_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/ranks/search_context.h"

namespace batchplan {

// The rank of each unit by the first pass's sharding. If groups stay on a rank, SHARDING_DEAL_BINS
// means SHARDING_LPT of whole groups, since bins would split them.
//
// InvalidArgument, beginning with context.where and naming both numbers, if the sharding or
// the equal counts ask for a division that doesn't come out even; Cancelled if none is found
// before a stop is requested.
absl::StatusOr<std::vector<uint32_t>> ShardUnits(const Pass& first_pass, const Units& units,
                                                 const SearchContext& context);

// Gives every rank equally many units, or one more, for when ShardUnits leaves a rank too few. If
// the pass's sharding is contiguous, ranks have runs of the mini-batch's order; otherwise the
// heaviest units go first, in each round to the lightest rank.
std::vector<uint32_t> ShardEvenly(const Pass& first_pass, const Units& units);

// Cuts loads into `runs` non-empty runs so that the largest sum of a run is the least possible, by
// binary search on that sum. Returns runs + 1 offsets. Needs 1 <= runs <= loads.size() and a total
// below 2^63. O(n log total).
std::vector<size_t> CutIntoRuns(std::span<const uint64_t> loads, size_t runs);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SHARD_H_
