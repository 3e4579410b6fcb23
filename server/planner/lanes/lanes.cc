#include "server/planner/lanes/lanes.h"

#include <algorithm>
#include <utility>

namespace batchplan {

Lanes::Lanes(const PackItems& items, const BinLimits& limits, uint32_t ranks, bool lockstep,
             double fixed, PipelineSimulator& simulator)
    : items_(items),
      ranks_(ranks),
      slots_(simulator.microbatches()),
      lockstep_(lockstep),
      fixed_(fixed),
      simulator_(simulator),
      state_{.bins = std::vector<std::vector<uint32_t>>(size_t{ranks} * slots_),
             .filled = std::vector<BinState>(size_t{ranks} * slots_, BinState::Empty(limits))},
      slot_costs_(slots_),
      costliest_(slots_, kUnknown) {}

void Lanes::Put(uint32_t bin, uint32_t item) {
  state_.bins[bin].push_back(item);
  state_.filled[bin].Add(SizeOf(item));
  costliest_[bin % slots_] = kUnknown;
}

uint32_t Lanes::Take(uint32_t bin, size_t place) {
  const uint32_t item = state_.bins[bin][place];
  state_.bins[bin][place] = state_.bins[bin].back();
  state_.bins[bin].pop_back();
  state_.filled[bin].Remove(SizeOf(item));
  costliest_[bin % slots_] = kUnknown;
  return item;
}

void Lanes::SwapSlots(uint32_t lane, uint32_t a, uint32_t b) {
  const uint32_t first = lockstep_ ? 0 : lane;
  const uint32_t last = lockstep_ ? ranks_ : lane + 1;
  for (uint32_t rank = first; rank < last; ++rank) {
    std::swap(state_.bins[BinAt(rank, a)], state_.bins[BinAt(rank, b)]);
    std::swap(state_.filled[BinAt(rank, a)], state_.filled[BinAt(rank, b)]);
  }
  std::swap(costliest_[a], costliest_[b]);
}

void Lanes::Restore(const State& state) {
  state_ = state;
  std::fill(costliest_.begin(), costliest_.end(), kUnknown);
}

double Lanes::Simulate(uint32_t lane) { return simulator_.Makespan(SlotCosts(lane)); }

double Lanes::Trace(uint32_t lane, std::span<double> weights) {
  return simulator_.Makespan(SlotCosts(lane), weights);
}

uint32_t Lanes::CostliestRank(uint32_t lane, uint32_t slot) const {
  if (!lockstep_) return lane;
  if (costliest_[slot] != kUnknown) return costliest_[slot];
  uint32_t costliest = 0;
  for (uint32_t rank = 1; rank < ranks_; ++rank) {
    if ((*this)[BinAt(rank, slot)].cost > (*this)[BinAt(costliest, slot)].cost) costliest = rank;
  }
  costliest_[slot] = costliest;
  return costliest;
}

Bins Lanes::TakeBins() const {
  Bins bins;
  for (const std::vector<uint32_t>& bin : state_.bins) bins.Add(bin);
  return bins;
}

std::span<const double> Lanes::SlotCosts(uint32_t lane) {
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    slot_costs_[slot] = cost(BinAt(CostliestRank(lane, slot), slot)) + fixed_;
  }
  return slot_costs_;
}

}  // namespace batchplan
