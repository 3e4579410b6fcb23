#include "server/planner/context/context_placement.h"

namespace batchplan {

ContextPlacement PlacementOf(const Pass& pass, const SequenceLists& items,
                             const ContextSlots& slots) {
  ContextPlacement placement;
  placement.reserve(slots.size());
  for (const std::vector<ContextGroup>& slot : slots) {
    std::vector<PlacedGroup>& groups = placement.emplace_back();
    groups.reserve(slot.size());
    for (const ContextGroup& group : slot) {
      PlacedGroup& placed = groups.emplace_back();
      placed.ranks = pass.sizes()[group.size].ranks;
      for (const uint32_t item : group.items) {
        placed.sequences.insert(placed.sequences.end(), items[item].begin(), items[item].end());
      }
    }
  }
  return placement;
}

}  // namespace batchplan
