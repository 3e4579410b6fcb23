// Local search over the items of groups whose sizes and slots are given.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_EVEN_OUT_GROUPS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_EVEN_OUT_GROUPS_H_

#include <cstdint>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The sum over slots of the slowest group, with the fixed costs.
Cost LockstepTime(const ContextItems& all, const std::vector<FilledSlot>& slots);

// Lowers the lockstep time by moves and exchanges of items between groups. No group becomes empty
// or exceeds its limits. Each round forms slots anew: of each size the slowest groups go to the
// slowest slots. The target of a slot is the mean time of its groups over its ranks, or its longest
// item if that is more. Then the group furthest over its target exchanges with those furthest under
// theirs, so that both come closest to their targets. Ends when nothing helps, after `steps` looks
// at groups and items, or with the allowance. Returns the time.
Cost EvenOutGroups(const ContextItems& all, uint64_t steps, const Allowance& allowance,
                   std::vector<FilledSlot>& slots);

// The groups that a rank runs: fixed ones, which run for `before`, and then those of the smallest
// size.
struct RankGroups {
  Cost before = 0;
  std::vector<FilledGroup*> groups;
};

// Lowers the time of the slowest rank as EvenOutGroups does, with the mean of all ranks as target.
// No group belongs to two ranks.
void EvenOutRanks(const ContextItems& all, uint64_t steps, const Allowance& allowance,
                  std::vector<RankGroups>& ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_EVEN_OUT_GROUPS_H_
