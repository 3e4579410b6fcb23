// Megatron-LM's scheduler of dynamic context parallelism, for the preset megatron_dynamic_cp.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_MEGATRON_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_MEGATRON_SLOTS_H_

#include <cstdint>
#include <optional>

#include "server/planner/groups/open_slot.h"
#include "server/planner/pass/context_problem.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Fills slot after slot with sequences in descending length. The longest sequence left opens a
// group of the least size that holds it. Each shorter one in turn goes where it keeps the slot's
// greatest work least, where the work of a sequence is its L^2 / ranks, the only cost that the
// scheduler knows. Of equal choices it goes to the smallest size that holds it: into the first
// group there that has room, or else into a new one. If the budget allows no group, it waits for
// the next slot. Ranks still free at the end go to the first group of the smallest size, which is
// doubled, again and again; where that is impossible, as in pools that are no power of two, the
// slot becomes one group of the whole pool with as many sequences, longest first, as it holds. If
// slots must be more, those with several groups are cut between groups at half of their ranks, the
// last slot first, and the groups of both parts doubled. An item of several sequences counts as one
// of their tokens. After DefaultDynamicCPScheduler in megatron/core/datasets/data_schedule.py of
// NVIDIA/Megatron-LM, branch dev at d48bd6be0. It also allows no group more work than 1.05 L times
// what a rank holds, which the budget never lets a group reach: all of its sequences are at most as
// long as L.
//
// Solved here are also cases that the scheduler fails on or does not know. Tokens are those of the
// group's size, aligned, and the budget holds. If no group may have the whole pool, free ranks get
// waiting sequences, then sequences of groups that have several. Where no slot can be cut between
// groups, one with several sequences is divided.
//
// None if that fails too; if more than kMaxEmptyMicrobatches groups would be empty; after
// `most_visits` looks at items and groups (with Visits::kOfAllowance once the allowance is spent);
// or once a stop is requested. Spends from the allowance. O(n sizes log n) unless groups that have
// little work are full of tokens, O(n groups) otherwise.
std::optional<ContextSlots> MegatronSlots(const ContextProblem& problem, const Allowance& allowance,
                                          uint64_t most_visits = Visits::kOfAllowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_MEGATRON_SLOTS_H_
