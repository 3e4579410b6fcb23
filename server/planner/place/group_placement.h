// Placements on groups that differ in size: made of slots and of single ranks, and back to slots.

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

// The placement of slots of the problem that `pass` makes of `items`.
Placement PlacementOf(const Pass& pass, const SequenceLists& items, const ContextSlots& slots);
// And of what the solver found, with the numbers of slots that it tried.
Placement PlacementOf(const Pass& pass, const SequenceLists& items, const SolvedContext& solved);

// `placement`, of ranks, with each rank a group of `size` ranks.
Placement OnGroups(const Placement& placement, uint32_t size);

// The way back, from sequences to the items of a problem. Knows one problem's items at a time.
class ItemNumbers {
 public:
  // Of a manifest of this many sequences.
  explicit ItemNumbers(size_t sequences);

  // Forgets all items, and numbers these. O(items).
  void Number(const SequenceLists& items);

  // The slots of a placement on groups. The items of a group are those whose first members it has,
  // in their order. A size is its number in pass.sizes(), or pass.sizes().size() if it is none of
  // these.
  ContextSlots SlotsOf(const Pass& pass, const Placement& placement) const;

 private:
  std::vector<uint32_t> In(std::span<const SequenceIndex> sequences) const;

  // By manifest position.
  std::vector<uint32_t> item_of_;
  std::vector<SequenceIndex> numbered_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_GROUP_PLACEMENT_H_
