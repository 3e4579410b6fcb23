// What is to be divided among the groups of a pool of ranks: the items of one mini-batch in one
// pass with Topology.dynamic_context.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_PROBLEM_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/time/schedule.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {

// One of the sizes that a group may have. What an item takes and costs is by item, as it is in a
// group of that size.
struct ContextSize {
  uint32_t ranks = 1;
  // Tokens that a group's row holds.
  uint64_t capacity = 0;
  // Aligned tokens of the item; above the capacity where it can't be in such a group.
  std::vector<uint32_t> tokens = {};
  // What it costs each rank of the group, exchange included.
  std::vector<Cost> costs = {};
};

struct ContextProblem {
  uint32_t pool = 1;
  // Ascending: powers of two, and perhaps the pool.
  std::vector<ContextSize> sizes = {};
  // Sequences in an item; empty: one each.
  std::vector<uint32_t> counts = {};
  // In a micro-batch; 0: no limit.
  uint32_t max_sequences = 0;
  Cost per_microbatch = 0;
  // Of slots.
  CountRule slots = {};
  bool allow_empty = false;
  Synchronization synchronization = Synchronization::kLockstep;
  Effort effort = Effort::kDefault;
  // Null without one.
  const Pipeline* pipeline = nullptr;

  size_t items() const { return sizes.front().tokens.size(); }
  StepClock clock() const { return StepClock(synchronization, pipeline); }
  // Groups of all slots, beyond which a plan has more empty ones than it may.
  uint64_t most_groups() const { return items() + kMaxEmptyMicrobatches; }
};

// A micro-batch on a group of sizes[size].ranks ranks.
struct ContextGroup {
  uint32_t size = 0;
  std::vector<uint32_t> items = {};
};

// The groups of each slot, whose ranks descend and add up to the pool.
using ContextSlots = std::vector<std::vector<ContextGroup>>;

// What there is to solve of a pass for these items (Pass::ItemLists); Cancelled if a stop is
// requested.
absl::StatusOr<ContextProblem> ContextProblemOf(const Pass& pass, const SequenceLists& items,
                                                const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_PROBLEM_H_
