// Placements on groups that differ in size: made from slots and from ranks, and converted back to
// slots.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_GROUP_PLACEMENT_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_GROUP_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/groups/solve_context.h"
#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// The placement of `slots`, which are of `pass`'s problem of `items`.
Placement PlacementOf(const Pass& pass, const SequenceLists& items, const ContextSlots& slots);
// The placement of what the solver found, with the numbers of slots that it tried.
Placement PlacementOf(const Pass& pass, const SequenceLists& items, const SolvedContext& solved);

// `placement`, of ranks, with each rank a group of `size` ranks.
Placement OnGroups(const Placement& placement, uint32_t size);

// Converts placements back to slots, from sequences to the items of one problem at a time.
class ItemNumbers {
 public:
  // Of a manifest of this many sequences.
  explicit ItemNumbers(size_t sequences);

  // Forgets all items, and numbers these. O(items).
  void Number(const SequenceLists& items);

  // The slots of a placement on groups. A group has the items whose first members it has, in their
  // order. Its size is the number in pass.sizes(), or pass.sizes().size() if the pass has no such
  // size.
  ContextSlots SlotsOf(const Pass& pass, const Placement& placement) const;

 private:
  std::vector<uint32_t> In(std::span<const SequenceIndex> sequences) const;

  // By manifest position.
  std::vector<uint32_t> item_of_;
  std::vector<SequenceIndex> numbered_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_GROUP_PLACEMENT_H_
