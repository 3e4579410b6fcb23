// Packed micro-batches out of the items of one rank.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_PACKED_FILL_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_PACKED_FILL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "server/planner/items.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// As the pass's packer makes them.
Bins DraftPacked(const PassInstance& pass, const Items& items, uint64_t seed,
                 const std::stop_token& stop);

// Brings a draft to exactly `count` bins, at most the number of items: packs again and tighter, or
// divides again into that many (PACKER_KARMARKAR_KARP), or splits, `group` bins of the last being
// alike (see SplitToCount). Nothing if no packing as tight as that is found
// before `stop` is requested.
std::optional<Bins> SettlePacked(const PassInstance& pass, const Items& items, const Bins& draft,
                                 size_t count, size_t group, const std::stop_token& stop);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_PACKED_FILL_H_
