// The loads of a slot's micro-batches: whether they are within limits, the cost of their phases,
// and which rank computes a dealt item.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_SLOT_LOADS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_SLOT_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// The items of one slot, dealt to ranks.
struct DealtItems {
  // By number in LoadItems, ascending, and the rank of each.
  std::vector<size_t> items;
  std::vector<uint32_t> ranks;
  // What each rank has.
  std::vector<double> sums;
};

// Deals the items of these sequences, in any order, to `ranks` ranks.
DealtItems DealItems(const Loads& loads, size_t load, std::span<const SequenceIndex> sequences,
                     uint32_t ranks);

// The sequences of a slot on all ranks. Micro-batches are as in Placement: slot s of rank r is list
// r * slots + s.
std::vector<SequenceIndex> SequencesOfSlot(const SequenceLists& microbatches, size_t slots,
                                           size_t slot);

// Whether the pass's limits on loads and its multiple of sequences hold.
bool KeepsLimits(const Pass& pass, const SequenceLists& microbatches, size_t slots);

// The cost of each phase in each micro-batch, in the order of pass.loads().phases(), each list
// parallel to `microbatches`. For a dealt load it is that of the slot's rank with most, the same on
// all ranks.
std::vector<std::vector<Cost>> PhaseCosts(const Pass& pass, const SequenceLists& microbatches,
                                          size_t slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_SLOT_LOADS_H_
