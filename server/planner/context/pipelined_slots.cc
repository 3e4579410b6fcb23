#include "server/planner/context/pipelined_slots.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "server/planner/pipeline/simulator.h"

namespace batchplan {
namespace {

std::vector<uint32_t> EndsOfGroups(const TimedSlot& slot) {
  std::vector<uint32_t> ends;
  ends.reserve(slot.size());
  uint32_t rank = 0;
  for (const TimedGroup& group : slot) ends.push_back(rank += group.ranks);
  return ends;
}

// Where the parts of the pool end: the ranks at which a group ends in every slot.
std::vector<uint32_t> EndsOfParts(std::span<const TimedSlot> slots) {
  std::vector<uint32_t> common = EndsOfGroups(slots.front());
  std::vector<uint32_t> both;
  for (const TimedSlot& slot : slots.subspan(1)) {
    if (common.size() == 1) break;
    both.clear();
    std::ranges::set_intersection(common, EndsOfGroups(slot), std::back_inserter(both));
    std::swap(common, both);
  }
  return common;
}

}  // namespace

PipelineTime TimeOfSlots(const Pipeline& pipeline, Synchronization synchronization,
                         std::span<const TimedSlot> slots, const Allowance& allowance) {
  if (slots.empty()) return {};
  std::vector<uint32_t> ends = EndsOfParts(slots);
  const bool is_long = ends.size() > kMaxPipelineWorks / pipeline.virtual_stages() / slots.size();
  if (synchronization == Synchronization::kLockstep || is_long) ends = {ends.back()};
  // Slot s of part p is number p * slots + s.
  std::vector<double> slowest(ends.size() * slots.size(), 0);
  for (size_t s = 0; s < slots.size(); ++s) {
    size_t part = 0;
    uint32_t rank = 0;
    for (const TimedGroup& group : slots[s]) {
      double& most = slowest[part * slots.size() + s];
      most = std::max(most, group.cost);
      rank += group.ranks;
      if (rank == ends[part]) ++part;
    }
  }
  return PipelineTimeOf(pipeline, Synchronization::kAccumulated, slowest, ends.size(), allowance);
}

}  // namespace batchplan
