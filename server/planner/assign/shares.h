// What each rank has of a mini-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SHARES_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SHARES_H_

#include <cstdint>
#include <span>

#include "server/planner/sequence_lists.h"

namespace batchplan {

// One list a rank: the sequences of the lists that are its own, in the order of the lists.
SequenceLists SharesOf(const SequenceLists& lists, std::span<const uint32_t> rank_of,
                       uint32_t ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SHARES_H_
