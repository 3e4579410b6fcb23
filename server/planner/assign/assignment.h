// The micro-batches of one pass over one mini-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_ASSIGNMENT_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/cost.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {

// What came out, while an assignment was looked for, about all assignments of its sequences; 0
// where nothing did.
struct Proven {
  // Micro-batches that are needed, all ranks together.
  uint64_t microbatches = 0;
  // LockstepBound of the sequences' costs.
  Cost lockstep_time = 0;
};

struct Assignment {
  // Slot s of rank r is list r * slots + s. Empty ones are the last of their rank.
  SequenceLists microbatches;
  // Tokens of the packed row without its tail, or the padded width; 0 for an empty micro-batch.
  std::vector<uint32_t> widths;
  uint32_t slots = 0;
  Proven proven;
  // All ranks have the same widths, and keep them if the slots change places.
  bool shared_widths = false;

  size_t ranks() const { return slots == 0 ? 0 : microbatches.size() / slots; }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_ASSIGNMENT_H_
