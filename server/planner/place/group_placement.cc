#include "server/planner/place/group_placement.h"

#include <limits>

namespace batchplan {
namespace {

constexpr uint32_t kNoItem = std::numeric_limits<uint32_t>::max();

}  // namespace

Placement PlacementOf(const Pass& pass, const SequenceLists& items, const ContextSlots& slots) {
  size_t groups = 0;
  for (const std::vector<ContextGroup>& slot : slots) groups += slot.size();
  Placement placement;
  placement.slots = static_cast<uint32_t>(slots.size());
  placement.microbatches.Reserve(groups, items.all().size());
  placement.widths.reserve(groups);
  placement.context_sizes.reserve(groups);
  for (const std::vector<ContextGroup>& slot : slots) {
    for (const ContextGroup& group : slot) {
      uint32_t width = 0;
      for (const uint32_t item : group.items) {
        placement.microbatches.Push(items[item]);
        for (const SequenceIndex sequence : items[item]) {
          width += pass.aligned(group.size)[sequence.value()];
        }
      }
      placement.microbatches.Close();
      placement.widths.push_back(width);
      placement.context_sizes.push_back(pass.sizes()[group.size].ranks);
    }
  }
  return placement;
}

Placement PlacementOf(const Pass& pass, const SequenceLists& items, const SolvedContext& solved) {
  Placement placement = PlacementOf(pass, items, solved.slots);
  placement.tried = solved.tried;
  for (SlotsTried& tried : placement.tried) tried.step_time = pass.cost().ToUnits(tried.step_time);
  return placement;
}

Placement OnGroups(const Placement& placement, uint32_t size) {
  const size_t groups = placement.microbatches.size();
  Placement on_groups;
  on_groups.slots = placement.slots;
  on_groups.method = kFixedSizeMethod;
  on_groups.microbatches.Reserve(groups, placement.microbatches.all().size());
  on_groups.widths.reserve(groups);
  on_groups.context_sizes.assign(groups, size);
  for (size_t slot = 0; slot < placement.slots; ++slot) {
    for (size_t m = slot; m < groups; m += placement.slots) {
      on_groups.microbatches.Push(placement.microbatches[m]);
      on_groups.microbatches.Close();
      on_groups.widths.push_back(placement.widths[m]);
    }
  }
  return on_groups;
}

ItemNumbers::ItemNumbers(size_t sequences) : item_of_(sequences, kNoItem) {}

void ItemNumbers::Number(const SequenceLists& items) {
  for (const SequenceIndex sequence : numbered_) item_of_[sequence.value()] = kNoItem;
  numbered_.clear();
  numbered_.reserve(items.size());
  for (uint32_t item = 0; item < items.size(); ++item) {
    numbered_.push_back(items[item].front());
    item_of_[items[item].front().value()] = item;
  }
}

ContextSlots ItemNumbers::SlotsOf(const Pass& pass, const Placement& placement) const {
  ContextSlots slots;
  slots.reserve(placement.slots);
  uint32_t ranks = pass.pool();  // of the last slot
  for (size_t m = 0; m < placement.microbatches.size(); ++m) {
    if (ranks == pass.pool()) {
      slots.emplace_back();
      ranks = 0;
    }
    slots.back().push_back({.size = static_cast<uint32_t>(pass.SizeOf(placement.context_sizes[m])),
                            .items = In(placement.microbatches[m])});
    ranks += placement.context_sizes[m];
  }
  return slots;
}

std::vector<uint32_t> ItemNumbers::In(std::span<const SequenceIndex> sequences) const {
  std::vector<uint32_t> items;
  for (const SequenceIndex sequence : sequences) {
    const uint32_t item = item_of_[sequence.value()];
    if (item != kNoItem) items.push_back(item);
  }
  return items;
}

}  // namespace batchplan
