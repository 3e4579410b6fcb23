#include "server/planner/assign/solve_packed.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/assign/fewest_microbatches.h"
#include "server/planner/assign/more_slots.h"
#include "server/planner/assign/objective.h"
#include "server/planner/assign/place.h"
#include "server/planner/balance/accumulated.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/packer.h"

namespace batchplan {
namespace {

// Slots that are tried beyond the fewest.
int MoreSlots(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kThorough:
      return 4;
    default:
      return 1;
  }
}

// The part of the tokens below which room to spare is little.
constexpr uint64_t kTightPart = 2000;

bool MayTakeAnyRank(const PassInstance& pass, size_t sequences) {
  if (!pass.options().equal_sequence_counts) return CanDeal(pass);
  return pass.synchronization() == Synchronization::kLockstep && !pass.groups_keep_rank() &&
         sequences % pass.ranks() == 0;
}

// As many items are packed sooner than all lower bounds are looked at.
constexpr size_t kMostToPackFirst = 4096;

// The slots that every plan has at least. Most often a greedy packing has no more.
uint64_t FewestSlots(const PassInstance& pass, const PackItems& items) {
  if (items.size() > kMostToPackFirst) return FewestPackedPerRank(pass, items);
  const uint64_t bins = PackFirstFitDecreasing(items, pass.bin_limits()).size();
  const uint64_t possible = pass.counts().RoundUp((bins + pass.ranks() - 1) / pass.ranks());
  return FewestPackedPerRank(pass, items, possible);
}

class Solver {
 public:
  Solver(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
         const Allowance& allowance)
      : pass_(pass),
        allowance_(allowance),
        items_(pass.ItemsOf(mini_batch)),
        objective_(ObjectiveOf(pass, items_)),
        packing_{.lengths = items_.lengths, .counts = items_.counts, .loads = objective_.loads},
        tokens_(std::accumulate(items_.lengths.begin(), items_.lengths.end(), uint64_t{0})),
        slots_(FewestSlots(pass, packing_)),
        most_slots_(items_.size() / pass.ranks()) {}

  std::optional<MiniBatchPlacement> Run() {
    if (slots_ > most_slots_) return std::nullopt;
    const std::optional<Bins> bins =
        pass_.synchronization() == Synchronization::kLockstep ? Lockstep() : Accumulated();
    if (!bins || allowance_.stop_requested()) return std::nullopt;
    std::vector<uint32_t> bin_at(bins->size());
    std::iota(bin_at.begin(), bin_at.end(), 0u);
    MiniBatchPlacement placement = PlacementOf(pass_, items_, *bins, bin_at);
    if (packed_) placement.lead().proven.microbatches = packed_->bound;
    if (objective_.is_cost) placement.lead().proven.lockstep_time = lockstep_bound_;
    return placement;
  }

 private:
  std::optional<Bins> Lockstep() {
    lockstep_bound_ = LockstepBound(packing_, pass_.bin_limits(), pass_.ranks());
    std::optional<BalancedBins> first;
    if (!IsTight()) first = Balance(slots_);
    if (!first) {
      const uint64_t too_few = slots_;
      PackTight();
      if (slots_ > most_slots_) return std::nullopt;
      first = Balance(slots_, &packed_->bins, /*start_only=*/slots_ == too_few || IsTight());
    }
    if (!first) return std::nullopt;
    const uint64_t bound = lockstep_bound_ + slots_ * objective_.per_microbatch;
    if (first->step_time <= bound + bound / kWorthASlot) return std::move(first->bins);
    return TryMoreSlots(
               pass_.counts(), slots_, most_slots_, MoreSlots(pass_.effort()), *std::move(first),
               [&](uint64_t slots) { return allowance_.spent() ? std::nullopt : Balance(slots); })
        .bins;
  }

  std::optional<Bins> Accumulated() {
    PackTight();
    if (slots_ > most_slots_ || allowance_.stop_requested()) return std::nullopt;
    return BalanceAccumulated(packing_, pass_.bin_limits(), pass_.ranks(), slots_, packed_->bins,
                              pass_.effort(), allowance_);
  }

  // Whether the bins have so little room to spare that only a packer fills them.
  bool IsTight() const {
    const uint64_t room = slots_ * pass_.ranks() * pass_.bin_limits().capacity;
    return room - tokens_ < tokens_ / kTightPart;
  }

  // Packs into the slots' bins, or raises the slots to what that takes.
  void PackTight() {
    packed_ = PackFewest(packing_, pass_.bin_limits(), slots_ * pass_.ranks(), pass_.effort(),
                         allowance_);
    const uint64_t needed = (packed_->bins.size() + pass_.ranks() - 1) / pass_.ranks();
    slots_ = std::max(slots_, pass_.counts().RoundUp(needed));
  }

  // With fixed costs in the step time.
  std::optional<BalancedBins> Balance(uint64_t slots, const Bins* start = nullptr,
                                      bool start_only = false) const {
    if (allowance_.stop_requested()) return std::nullopt;
    std::optional<BalancedBins> balanced =
        BalanceLockstep({.items = packing_,
                         .limits = pass_.bin_limits(),
                         .ranks = pass_.ranks(),
                         .slots = static_cast<uint32_t>(slots),
                         .rank_of = {},
                         .equal_counts = pass_.options().equal_sequence_counts,
                         .start = start,
                         .start_only = start_only,
                         .enough = lockstep_bound_,
                         .effort = pass_.effort(),
                         .allowance = allowance_});
    if (balanced) balanced->step_time += slots * objective_.per_microbatch;
    return balanced;
  }

  const PassInstance& pass_;
  const Allowance& allowance_;
  const Items items_;
  const Objective objective_;
  const PackItems packing_;
  const uint64_t tokens_;
  uint64_t slots_;
  const uint64_t most_slots_;
  std::optional<FewestBins> packed_;
  uint64_t lockstep_bound_ = 0;
};

}  // namespace

std::optional<MiniBatchPlacement> SolvePacked(const PassInstance& pass,
                                              std::span<const SequenceIndex> mini_batch,
                                              const Allowance& allowance) {
  if (!MayTakeAnyRank(pass, mini_batch.size())) return std::nullopt;
  return Solver(pass, mini_batch, allowance).Run();
}

}  // namespace batchplan
