// Stage 3, assign: the sequences of a mini-batch to ranks and slots.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/bin_count.h"
#include "server/planner/items.h"
#include "server/planner/options.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// Micro-batches, and which of them runs where: slot s of rank r runs bins[bin_at[r * slots + s]].
struct Assignment {
  Bins bins;
  std::vector<uint32_t> bin_at;
  uint32_t slots = 0;
};

// What an assignment has to obey.
struct AssignmentRules {
  uint32_t ranks = 1;
  BinLimits limits;
  CountRule counts;
  // For random choices.
  uint64_t seed = 0;
};

// Assigns `items`, one or more, by the pass's sharding and packer. `where` names the mini-batch in
// errors. InvalidArgument if there are fewer sequences than the micro-batches that the ranks need,
// or if equal counts are asked and do not divide.
absl::StatusOr<Assignment> Assign(const Items& items, const PassOptions& pass,
                                  const AssignmentRules& rules, absl::string_view where);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_H_
