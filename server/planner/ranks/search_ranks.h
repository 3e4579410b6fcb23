// Exhaustive search for the ranks of a few units.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SEARCH_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SEARCH_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/ranks/shard.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// No search is begun if all mini-batches together have more units than this.
inline constexpr size_t kMaxSearchedUnits = 32;

struct RankSearch {
  uint32_t ranks = 1;
  // Whether each rank has a run of the units' order.
  bool contiguous = false;
  // Whether every rank has the same number of sequences, within one if ranks do not divide them.
  bool equal_counts = false;
  // The search gives up once it is spent or a stop requested.
  Allowance allowance = {};
  // The fewest units that a rank may have.
  uint64_t least_units = 0;
  // Whether these ranks of mini-batch k's units are acceptable. Called with each complete division
  // that the search finds.
  std::function<bool(size_t k, const std::vector<uint32_t>& rank_of)> accept;
};

// For each mini-batch in order, the rank of each unit, such that every mini-batch is accepted.
// Nothing if there is no such division, or if the search gave up.
std::optional<std::vector<std::vector<uint32_t>>> SearchRanks(std::span<const Units> mini_batches,
                                                              const RankSearch& search);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SEARCH_RANKS_H_
