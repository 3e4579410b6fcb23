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

// One of the sizes that a group may have. Vectors have one entry an item, as it is in a group of
// that size.
struct ContextSize {
  uint32_t ranks = 1;
  // Tokens that a group's row holds.
  uint64_t capacity = 0;
  // Aligned tokens; above the capacity if the item can't be in such a group.
  std::vector<uint32_t> tokens = {};
  // The cost for each rank of the group, exchange included.
  std::vector<Cost> costs = {};
  // If rows are padded to one width: the cost of the tokens of a row as wide as the capacity, and
  // the part of `costs` for the item's own tokens. A group that is not empty pays whole_row in
  // place of own_tokens. 0 and empty if rows are not padded so.
  Cost whole_row = 0;
  std::vector<Cost> own_tokens = {};

  // What an item adds to a group that is not empty.
  Cost Added(size_t item) const {
    return own_tokens.empty() ? costs[item] : costs[item] - own_tokens[item];
  }
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
  // Whether every row is as wide as its capacity. If not, whole_row is the most that it costs.
  bool full_rows = false;
  // Of slots.
  CountRule slots = {};
  bool allow_empty = false;
  Synchronization synchronization = Synchronization::kLockstep;
  Effort effort = Effort::kDefault;
  // Null without one.
  const Pipeline* pipeline = nullptr;

  size_t items() const { return sizes.front().tokens.size(); }
  // Whether a slot costs something besides its items.
  bool has_fixed_costs() const { return per_microbatch > 0 || sizes.front().whole_row > 0; }
  StepClock clock() const { return StepClock(synchronization, pipeline); }
  // The most groups of all slots; with more, a plan would have too many empty ones.
  uint64_t most_groups() const { return items() + kMaxEmptyMicrobatches; }
};

// A micro-batch on a group of sizes[size].ranks ranks.
struct ContextGroup {
  uint32_t size = 0;
  std::vector<uint32_t> items = {};
};

// The groups of each slot, whose ranks descend and add up to the pool.
using ContextSlots = std::vector<std::vector<ContextGroup>>;

// The problem of a pass for these items (Pass::ItemLists); Cancelled if a stop is requested.
absl::StatusOr<ContextProblem> ContextProblemOf(const Pass& pass, const SequenceLists& items,
                                                const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_PROBLEM_H_
