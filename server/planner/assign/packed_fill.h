// Packed micro-batches out of the items of one rank.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_PACKED_FILL_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_PACKED_FILL_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/planner/allowance.h"
#include "server/planner/items.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

enum class PackingWork {
  // The pass's packer and effort, and every search before a request is refused.
  kAsAsked,
  // Greedy packers alone, where thousands of divisions are tried.
  kGreedy,
};

// As the pass's packer makes them.
Bins DraftPacked(const PassInstance& pass, const Items& items, uint64_t seed, PackingWork work,
                 const Allowance& allowance);

// Brings a draft to exactly `count` bins, at most the number of items: packs again and tighter, or
// divides again into that many (PACKER_KARMARKAR_KARP), or splits, `group` bins of the last being
// alike (see SplitToCount). Nothing if no packing as tight as that is found with the
// allowance, or a stop is requested.
std::optional<Bins> SettlePacked(const PassInstance& pass, const Items& items, const Bins& draft,
                                 size_t count, size_t group, PackingWork work,
                                 const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_PACKED_FILL_H_
