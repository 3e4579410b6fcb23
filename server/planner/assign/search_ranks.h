// Exhaustive search for a division of rank units among ranks, for a few units.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SEARCH_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SEARCH_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/assign/shard.h"

namespace batchplan {

// Of more units, in all mini-batches, none is looked for.
inline constexpr size_t kMaxSearchedUnits = 32;

struct RankSearch {
  uint32_t ranks = 1;
  // Ranks follow each other in the units' order.
  bool contiguous = false;
  // Every rank has the same number of sequences.
  bool equal_counts = false;
  // The search gives up once it is spent or a stop requested.
  Allowance allowance = {};
  // Units that every rank has at least.
  uint64_t least_units = 0;
  // Whether the division of mini-batch k, complete, is of use; once for each that is reached.
  std::function<bool(size_t k, const std::vector<uint32_t>& rank_of)> accept;
};

// The rank of each unit of each mini-batch such that every mini-batch is accepted, the last one
// last. Nothing if there is none, or if the search gave up, as it does
// at once of many units.
std::optional<std::vector<std::vector<uint32_t>>> SearchRanks(std::span<const Units> mini_batches,
                                                              const RankSearch& search);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SEARCH_RANKS_H_
