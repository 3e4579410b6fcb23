// Megatron-LM's scheduler of dynamic context parallelism, for the preset megatron_dynamic_cp.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_MEGATRON_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_MEGATRON_SLOTS_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "server/planner/pass/context_problem.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Fills slot after slot with sequences in descending length. The longest sequence left opens a
// group of the least size that holds it, and bounds the slot: no group may have more than 1.05 of
// its L^2 / ranks, the only cost that the scheduler knows. Each shorter sequence in turn goes where
// it keeps the slot's greatest L^2 / ranks least. Of equal choices it goes to the smallest size
// that holds it: into a new group as long as ranks are free, or into the least loaded one. If the
// bound allows no group, it waits for the next slot. Ranks still free at the end go to the first
// group of the smallest size, which is doubled, again and again. An item of several sequences
// counts as one of their tokens. After DefaultDynamicCPScheduler in
// megatron/core/datasets/data_schedule.py of NVIDIA/Megatron-LM, branch dev.
//
// Two cases that the scheduler does not solve are solved here. If no group can be doubled, as in
// pools that are no power of two, free ranks get waiting sequences, then sequences of groups that
// have several, or one group gets the whole pool. And slots are divided until problem.slots allows
// their number.
//
// None if that fails too; if more than kMaxEmptyMicrobatches groups would be empty; after
// `most_visits` looks at items and groups (with kVisitsOfAllowance once the allowance is spent); or
// once a stop is requested. Spends from the allowance. O(n sizes log n) if the least loaded groups
// have room, O(n groups) otherwise.
inline constexpr uint64_t kVisitsOfAllowance = std::numeric_limits<uint64_t>::max();
std::optional<ContextSlots> MegatronSlots(const ContextProblem& problem, const Allowance& allowance,
                                          uint64_t most_visits = kVisitsOfAllowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_MEGATRON_SLOTS_H_
