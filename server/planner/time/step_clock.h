// The model of time: how long a mini-batch runs, given the costs of its micro-batches, and a lower
// bound. For ranks that each run micro-batches of their own, and for groups of ranks that share
// them.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_STEP_CLOCK_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_STEP_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/allowance.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/options.h"
#include "server/planner/time/schedule.h"

namespace batchplan {

// The micro-batches of a mini-batch, slot by slot as they run. In a slot they stand along the ranks
// of the pool, and every rank has one.
template <typename Number>
class TimedSlotsOf {
 public:
  // A micro-batch: the ranks that share it, and its cost on each of them.
  struct Group {
    uint32_t ranks = 1;
    Number cost = 0;
  };

  // Adds a micro-batch to the open slot.
  void Add(uint32_t ranks, Number cost) { groups_.push_back({.ranks = ranks, .cost = cost}); }
  void Close() { begins_.push_back(groups_.size()); }
  void Reserve(size_t slots, size_t groups) {
    begins_.reserve(slots + 1);
    groups_.reserve(groups);
  }

  size_t size() const { return begins_.size() - 1; }
  std::span<const Group> operator[](size_t slot) const {
    return std::span(groups_).subspan(begins_[slot], begins_[slot + 1] - begins_[slot]);
  }
  // The ranks of a slot.
  uint32_t pool() const {
    uint32_t pool = 0;
    for (size_t m = 0; size() > 0 && m < begins_[1]; ++m) pool += groups_[m].ranks;
    return pool;
  }
  // The cost of the slot's costliest micro-batch.
  Number Costliest(size_t slot) const {
    Number costliest = 0;
    for (const Group& group : (*this)[slot]) costliest = std::max(costliest, group.cost);
    return costliest;
  }

 private:
  std::vector<Group> groups_;
  std::vector<size_t> begins_ = {0};
};

using TimedSlots = TimedSlotsOf<Cost>;

// The slots of ranks that each run micro-batches of their own: slot s of rank r costs
// costs[r * slots + s].
TimedSlots TimedRanks(std::span<const Cost> costs, size_t ranks);

// The slots of groups of these sizes, slot after slot, each slot's along the pool.
TimedSlots TimedGroups(std::span<const Cost> costs, std::span<const uint32_t> sizes, uint32_t pool);

// How long a mini-batch runs.
struct StepDuration {
  Cost time = 0;
  // `time` before it is rounded. On pipelines alone.
  double makespan = 0;
  // The part of the makespan in which the stage with most work is busy. On pipelines alone.
  double work = 0;
};

class StepClock {
 public:
  // `pipeline` is null without one.
  StepClock(Synchronization synchronization, const Pipeline* pipeline)
      : synchronization_(synchronization), pipeline_(pipeline) {}

  // Without a pipeline. In lockstep ranks wait for each other at every slot: the time is the sum of
  // the slots' costliest micro-batches. Accumulated, a micro-batch begins when the last of its
  // ranks is free, and the time is the end of the last one; if ranks share no micro-batches, it is
  // the costliest rank's sum.
  //
  // On pipelines the makespan is simulated (time/pipeline_time.h). In lockstep one pipeline
  // runs the costliest micro-batch of each slot. Accumulated, the pool falls into parts that share
  // no micro-batch in any slot: each part runs the costliest of its micro-batches in each slot, and
  // the slowest part counts. If parts, slots and virtual stages are more than kMaxPipelineWorks
  // together, the whole pool is one part. The simulations are spent.
  //
  // Any value once a stop is requested.
  StepDuration Of(const TimedSlots& slots, const Allowance& allowance = {}) const;
  // The time for costs in units of a cost model.
  double Of(const TimedSlotsOf<double>& slots, const Allowance& allowance = {}) const;

  // Whether the allowance affords the simulations of Of for this many slots, with this many
  // micro-batches in all. True without a pipeline.
  bool Affords(uint64_t slots, uint64_t microbatches, const Allowance& allowance) const;

  // A lower bound on the time of a mini-batch in which some rank has this much work, every
  // micro-batch costs at least `cheapest` and one costs `costliest`. Fixed costs are part of all
  // three. Without a pipeline the bound is the work.
  Cost Bound(Cost work, Cost cheapest, Cost costliest) const;

 private:
  Synchronization synchronization_;
  const Pipeline* pipeline_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_STEP_CLOCK_H_
