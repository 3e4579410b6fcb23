// What the slots of a pool take on pipelines.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_PIPELINED_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_PIPELINED_SLOTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/options.h"
#include "server/planner/pipeline/schedule.h"
#include "server/planner/step_time.h"

namespace batchplan {

// A group of a slot: its ranks, and what each of them takes.
struct TimedGroup {
  uint32_t ranks = 1;
  double cost = 0;
};

// A slot's groups along the ranks of the pool.
using TimedSlot = std::vector<TimedGroup>;

// In lockstep the makespan of the slots' slowest groups. Accumulated, ranks wait for those alone
// with which they share groups, directly or through others: the pool falls into parts, as small as
// no group of any slot reaches from one to the next, and the slowest part counts, whose makespan is
// that of its slots' slowest groups. Groups that all have one size are parts of their own, and so
// take what a topology of that context_parallel does. Where parts, slots and virtual stages are
// more than kMaxPipelineWorks together, the whole pool is one part.
//
// Spends its simulations. Any time once a stop is requested.
PipelineTime TimeOfSlots(const Pipeline& pipeline, Synchronization synchronization,
                         std::span<const TimedSlot> slots, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_PIPELINED_SLOTS_H_
