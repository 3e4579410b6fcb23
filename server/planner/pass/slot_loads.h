// The loads of the micro-batches of a slot: whether they are within limits, what their phases cost,
// and which rank computes an item that is dealt.

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

// Micro-batches as a Placement has them: slot s of rank r is list r * slots + s. The sequences of a
// slot on all ranks.
std::vector<SequenceIndex> SequencesOfSlot(const SequenceLists& microbatches, size_t slots,
                                           size_t slot);

// Whether all of the pass's limits on loads hold, and its multiple of sequences.
bool KeepsLimits(const Pass& pass, const SequenceLists& microbatches, size_t slots);

// What each phase costs micro-batches, in the order of pass.loads().phases(), each parallel to
// `microbatches`: of a dealt load what the slot's rank with most takes, the same on all ranks.
std::vector<std::vector<Cost>> PhaseCosts(const Pass& pass, const SequenceLists& microbatches,
                                          size_t slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_SLOT_LOADS_H_
