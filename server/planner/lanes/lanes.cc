#include "server/planner/lanes/lanes.h"

#include <algorithm>
#include <array>
#include <numeric>
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
             .filled = std::vector<BinState>(size_t{ranks} * slots_, BinState::Empty(limits)),
             .columns = std::vector<uint32_t>(slots_)},
      slot_costs_(slots_) {
  std::iota(state_.columns.begin(), state_.columns.end(), 0u);
  if (!lockstep) return;
  costliest_.reserve(slots_);
  for (uint32_t column = 0; column < slots_; ++column) {
    costliest_.emplace_back(ranks, std::array<uint64_t, 1>{0});
  }
}

void Lanes::Enter(uint32_t bin) {
  if (!lockstep_) return;
  costliest_[bin % slots_].Set(bin / slots_, std::array{state_.filled[bin].cost});
}

void Lanes::Put(uint32_t bin, uint32_t item) {
  state_.bins[bin].push_back(item);
  state_.filled[bin].Add(SizeOf(item));
  Enter(bin);
}

uint32_t Lanes::Take(uint32_t bin, size_t place) {
  SwapWithLast(bin, place);
  const uint32_t item = state_.bins[bin].back();
  state_.bins[bin].pop_back();
  state_.filled[bin].Remove(SizeOf(item));
  Enter(bin);
  return item;
}

void Lanes::SwapWithLast(uint32_t bin, size_t place) {
  std::swap(state_.bins[bin][place], state_.bins[bin].back());
}

void Lanes::SwapSlots(uint32_t lane, uint32_t a, uint32_t b) {
  if (lockstep_) {
    std::swap(state_.columns[a], state_.columns[b]);
    return;
  }
  std::swap(state_.bins[BinAt(lane, a)], state_.bins[BinAt(lane, b)]);
  std::swap(state_.filled[BinAt(lane, a)], state_.filled[BinAt(lane, b)]);
}

void Lanes::Restore(const State& state) {
  state_ = state;
  for (uint32_t bin = 0; bin < ranks_ * slots_; ++bin) Enter(bin);
}

double Lanes::SlotCost(uint32_t lane, uint32_t slot) const {
  if (!lockstep_) return cost(BinAt(lane, slot));
  return static_cast<double>(costliest_[state_.columns[slot]].most()[0]);
}

double Lanes::SlotCostWith(uint32_t slot, uint32_t rank, uint64_t cost, uint64_t of_another) const {
  if (lockstep_) {
    cost = costliest_[state_.columns[slot]].MostBut(rank, std::max(cost, of_another));
  }
  return static_cast<double>(cost);
}

double Lanes::Trace(uint32_t lane, std::span<double> weights) {
  for (uint32_t slot = 0; slot < slots_; ++slot) slot_costs_[slot] = SlotCost(lane, slot) + fixed_;
  return simulator_.Makespan(slot_costs_, weights);
}

uint32_t Lanes::CostliestRank(uint32_t lane, uint32_t slot) const {
  if (!lockstep_) return lane;
  const Maxima<uint64_t, 1>& costs = costliest_[state_.columns[slot]];
  return static_cast<uint32_t>(costs.FirstAtLeast(0, costs.most()));
}

Bins Lanes::TakeBins() const {
  Bins bins;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    for (uint32_t slot = 0; slot < slots_; ++slot) bins.Add(state_.bins[BinAt(rank, slot)]);
  }
  return bins;
}

}  // namespace batchplan
