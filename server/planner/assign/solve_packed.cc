#include "server/planner/assign/solve_packed.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/assign/fewest_microbatches.h"
#include "server/planner/assign/objective.h"
#include "server/planner/assign/place.h"
#include "server/planner/balance/accumulated.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/fewest_bins/fewest_bins.h"

namespace batchplan {
namespace {

// The part of the step time by which one more slot has to shorten it, and that the step is above
// its bound where one more is worth a try.
constexpr uint64_t kWorthASlot = 1000;

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

bool MayTakeAnyRank(const PassInstance& pass, size_t sequences) {
  if (!pass.options().equal_sequence_counts) return CanDeal(pass);
  return pass.synchronization() == Synchronization::kLockstep && !pass.groups_share_rank() &&
         sequences % pass.ranks() == 0;
}

class Solver {
 public:
  Solver(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
         const std::stop_token& stop)
      : pass_(pass),
        stop_(stop),
        blocks_(pass.MicrobatchBlocks(mini_batch)),
        items_(pass.ItemsOf(blocks_)),
        objective_(ObjectiveOf(pass, items_)),
        packing_{.lengths = items_.lengths, .counts = items_.counts, .loads = objective_.loads},
        slots_(pass.counts().RoundUp(FewestMicrobatchesPerRank(pass, mini_batch))),
        most_slots_(items_.size() / pass.ranks()) {}

  std::optional<Dealt> Run() {
    if (slots_ > most_slots_) return std::nullopt;
    const std::optional<Bins> bins =
        pass_.synchronization() == Synchronization::kLockstep ? Lockstep() : Accumulated();
    if (!bins) return std::nullopt;
    std::vector<uint32_t> bin_at(bins->size());
    std::iota(bin_at.begin(), bin_at.end(), 0u);
    Dealt dealt = DealtAs(pass_, blocks_, items_, *bins, bin_at);
    if (packed_) dealt.assignment.proven.microbatches = packed_->bound;
    if (objective_.is_cost) dealt.assignment.proven.lockstep_time = lockstep_bound_;
    return dealt;
  }

 private:
  std::optional<Bins> Lockstep() {
    const uint64_t bound = LockstepBound(packing_, pass_.bin_limits(), pass_.ranks());
    lockstep_bound_ = bound;
    std::optional<BalancedBins> best = Balance();
    if (!best) {
      const uint64_t too_few = slots_;
      PackTight();
      if (slots_ > most_slots_) return std::nullopt;
      if (slots_ > too_few) best = Balance();
      if (!best) best = Balance(&packed_->bins);
    }
    if (!best) return std::nullopt;
    uint64_t best_time = TimeOf(*best);
    for (int more = MoreSlots(pass_.effort());
         more > 0 && best->step_time > bound + bound / kWorthASlot; --more) {
      slots_ = pass_.counts().RoundUp(slots_ + 1);
      if (slots_ > most_slots_ || stop_.stop_requested()) break;
      std::optional<BalancedBins> found = Balance();
      if (!found || TimeOf(*found) >= best_time - best_time / kWorthASlot) break;
      best_time = TimeOf(*found);
      best = std::move(found);
    }
    return std::move(best->bins);
  }

  std::optional<Bins> Accumulated() {
    PackTight();
    if (slots_ > most_slots_) return std::nullopt;
    return BalanceAccumulated(packing_, pass_.bin_limits(), pass_.ranks(), slots_, packed_->bins,
                              pass_.effort());
  }

  // Packs into the slots' bins, or raises the slots to what that takes.
  void PackTight() {
    packed_ = PackFewest(packing_, pass_.bin_limits(), slots_ * pass_.ranks(), pass_.effort());
    const uint64_t needed = (packed_->bins.size() + pass_.ranks() - 1) / pass_.ranks();
    slots_ = std::max(slots_, pass_.counts().RoundUp(needed));
  }

  std::optional<BalancedBins> Balance(const Bins* start = nullptr) const {
    return BalanceLockstep({.items = packing_,
                            .limits = pass_.bin_limits(),
                            .ranks = pass_.ranks(),
                            .slots = static_cast<uint32_t>(slots_),
                            .rank_of = {},
                            .equal_counts = pass_.options().equal_sequence_counts,
                            .start = start,
                            .enough = lockstep_bound_,
                            .effort = pass_.effort(),
                            .stop = stop_});
  }

  uint64_t TimeOf(const BalancedBins& bins) const {
    return bins.step_time + slots_ * objective_.per_microbatch;
  }

  const PassInstance& pass_;
  const std::stop_token& stop_;
  const SequenceLists blocks_;
  const Items items_;
  const Objective objective_;
  const PackItems packing_;
  uint64_t slots_;
  const uint64_t most_slots_;
  std::optional<FewestBins> packed_;
  uint64_t lockstep_bound_ = 0;
};

}  // namespace

std::optional<Dealt> SolvePacked(const PassInstance& pass,
                                 std::span<const SequenceIndex> mini_batch,
                                 const std::stop_token& stop) {
  if (!MayTakeAnyRank(pass, mini_batch.size())) return std::nullopt;
  return Solver(pass, mini_batch, stop).Run();
}

}  // namespace batchplan
