// The micro-batches of pipelines while a search changes them, and how long each rank runs with
// them.
//
// A *lane* is what is simulated: a rank, or in lockstep all ranks together, each slot at the cost
// of its costliest micro-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_LANES_LANES_H_
#define BATCHPLAN_SERVER_PLANNER_LANES_LANES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bin_state.h"
#include "server/planner/packing/bins.h"
#include "server/planner/packing/maxima.h"
#include "server/planner/time/simulator.h"

namespace batchplan {

class Lanes {
 public:
  // All bins empty. Views the items and the simulator, which must trace and has one micro-batch a
  // slot.
  Lanes(const PackItems& items, const BinLimits& limits, uint32_t ranks, bool lockstep,
        double fixed, PipelineSimulator& simulator);

  uint32_t count() const { return lockstep_ ? 1 : ranks_; }
  uint32_t LaneOf(uint32_t rank) const { return lockstep_ ? 0 : rank; }
  // The bin in a slot of a rank: number rank * slots + slot, until slots change places.
  uint32_t BinAt(uint32_t rank, uint32_t slot) const {
    return rank * slots_ + state_.columns[slot];
  }

  const std::vector<uint32_t>& items_of(uint32_t bin) const { return state_.bins[bin]; }
  double cost(uint32_t bin) const { return static_cast<double>(state_.filled[bin].cost); }
  const BinState& operator[](uint32_t bin) const { return state_.filled[bin]; }
  bool Holds(uint32_t bin, uint32_t item) const { return state_.filled[bin].Holds(SizeOf(item)); }
  // Whether it holds the item instead of one that is in it.
  bool Holds(uint32_t bin, uint32_t item, uint32_t instead_of) const {
    return state_.filled[bin].Holds(SizeOf(item) - SizeOf(instead_of));
  }

  void Put(uint32_t bin, uint32_t item);
  // Removes item number `place` of a bin and returns it.
  uint32_t Take(uint32_t bin, size_t place);
  // The item changes places with the last one of its bin.
  void SwapWithLast(uint32_t bin, size_t place);
  void SwapSlots(uint32_t lane, uint32_t a, uint32_t b);

  // The cost of a lane's slot, without the fixed one.
  double SlotCost(uint32_t lane, uint32_t slot) const;
  // What it would be if the rank's bin had this cost, and another bin in the slot at least that
  // one.
  double SlotCostWith(uint32_t slot, uint32_t rank, uint64_t cost, uint64_t of_another = 0) const;
  // The makespan of a lane with its bins as they are; sets `weights` to how much it grows with the
  // cost of each slot.
  double Trace(uint32_t lane, std::span<double> weights);
  // The rank whose bin is the costliest of a lane's slot.
  uint32_t CostliestRank(uint32_t lane, uint32_t slot) const;

  Bins TakeBins() const;

  // The items of every bin, for Restore.
  struct State {
    std::vector<std::vector<uint32_t>> bins;
    std::vector<BinState> filled;
    // By slot, the number of its bin on the first rank. In lockstep slots change places here.
    std::vector<uint32_t> columns;
  };
  const State& state() const { return state_; }
  void Restore(const State& state);

 private:
  ItemSize SizeOf(uint32_t item) const {
    return ItemSize::Of(items_.loads[item], items_.lengths[item], items_.count(item));
  }
  // Records the cost of a bin.
  void Enter(uint32_t bin);

  const PackItems& items_;
  const uint32_t ranks_;
  const uint32_t slots_;
  const bool lockstep_;
  const double fixed_;
  PipelineSimulator& simulator_;
  State state_;
  std::vector<double> slot_costs_;
  // In lockstep, by column, the costs of its bins by rank.
  std::vector<Maxima<uint64_t, 1>> costliest_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_LANES_LANES_H_
