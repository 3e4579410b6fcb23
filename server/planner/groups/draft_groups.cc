#include "server/planner/groups/draft_groups.h"

namespace batchplan {

std::vector<FilledGroup> DraftGroups::Filled() const {
  std::vector<uint32_t> items(groups_.size(), 0);
  for (const Placed& placed : placed_) ++items[placed.group];
  std::vector<FilledGroup> filled;
  filled.reserve(groups_.size());
  for (size_t i = 0; i < groups_.size(); ++i) {
    const DraftGroup& group = groups_[i];
    FilledGroup& own = filled.emplace_back(FilledGroup{.size = group.size,
                                                       .time = group.time,
                                                       .tokens = group.tokens,
                                                       .sequences = group.sequences});
    own.items.reserve(items[i]);
  }
  for (const Placed& placed : placed_) filled[placed.group].items.push_back(placed.item);
  return filled;
}

}  // namespace batchplan
