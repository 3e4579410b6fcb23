// Exhaustive search for a division of rank units among ranks, for a few units.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SEARCH_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SEARCH_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/assign/shard.h"

namespace batchplan {

struct RankSearch {
  uint32_t ranks = 1;
  // Ranks follow each other in the units' order.
  bool contiguous = false;
  // Every rank has the same number of sequences.
  bool equal_counts = false;
  // Units that every rank has at least.
  uint64_t least_units = 0;
  // Whether the division of mini-batch k, complete, is of use; once for each that is reached.
  std::function<bool(size_t k, const std::vector<uint32_t>& rank_of)> accept;
};

// The rank of each unit of each mini-batch such that every mini-batch is accepted, the last one
// last. Nothing if there is none, or if there are so many units that the search gave up.
std::optional<std::vector<std::vector<uint32_t>>> SearchRanks(
    std::span<const RankUnits> mini_batches, const RankSearch& search);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SEARCH_RANKS_H_
