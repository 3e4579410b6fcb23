#include "server/planner/assign/solve_padded.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/assign/more_slots.h"
#include "server/planner/assign/sorted_items.h"
#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/rank_bins.h"
#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// The split with the least padding takes a while for more items.
constexpr size_t kMostForOptimalSplit = 16384;

// Slots that are tried beyond the fewest.
int MoreSlots(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kThorough:
      return 16;
    default:
      return 4;
  }
}

struct Division {
  Cuts cuts;
  // Slot s of rank r is run run_at[r * slots + s].
  std::vector<uint32_t> run_at;
  uint64_t step_time = 0;
};

class Solver {
 public:
  Solver(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
         const Allowance& allowance)
      : pass_(pass),
        allowance_(allowance),
        lockstep_(pass.synchronization() == Synchronization::kLockstep),
        items_(pass.ItemsOf(mini_batch)),
        sorted_(items_) {
    const bool tokens = pass.options().balance_on == BalanceOn::kTokens;
    for (uint32_t width : sorted_.view().widths) {
      costs_.push_back(tokens ? width : pass.cost().OfSequence(width));
    }
    per_microbatch_ = tokens ? 0 : pass.cost().OfMicrobatch();
  }

  std::optional<MiniBatchPlacement> Run() {
    const uint64_t ranks = pass_.ranks();
    const uint64_t most = items_.size() / ranks;
    const size_t fewest = SortedScan(sorted_.view(), pass_.padded_limits()).size() - 1;
    uint64_t slots = pass_.counts().RoundUp((fewest + ranks - 1) / ranks);
    if (slots > most || allowance_.stop_requested()) return std::nullopt;
    const auto divide = [&](uint64_t more) {
      const bool ended = allowance_.spent() || allowance_.stop_requested();
      return ended ? std::nullopt : std::optional(Divide(more));
    };
    const Division best =
        TryMoreSlots(pass_.counts(), slots, most, MoreSlots(pass_.effort()), Divide(slots), divide);
    return PlacementOf(pass_, items_, sorted_.BinsOf(best.cuts), best.run_at);
  }

 private:
  Division Divide(uint64_t slots) const {
    const size_t runs = slots * pass_.ranks();
    Division best =
        Deal(LevelSplit(sorted_.view(), costs_, pass_.padded_limits(), runs, allowance_));
    if (items_.size() <= kMostForOptimalSplit && !allowance_.spent()) {
      Cuts cuts = OptimalSplit(sorted_.view(), pass_.padded_limits(), runs, allowance_);
      if (allowance_.stop_requested()) return best;
      Division least_padded = Deal(std::move(cuts));
      if (least_padded.step_time < best.step_time) best = std::move(least_padded);
    }
    return best;
  }

  Division Deal(Cuts cuts) const {
    if (lockstep_) {
      cuts = ImproveSlots(sorted_.view(), costs_, pass_.padded_limits(), pass_.ranks(),
                          std::move(cuts), RefineSteps(items_.size(), pass_.effort()), allowance_);
    }
    const std::vector<uint64_t> run_costs = RunCosts(sorted_.view(), costs_, cuts);
    const size_t slots = run_costs.size() / pass_.ranks();
    Division division{.cuts = std::move(cuts), .run_at = {}};
    if (lockstep_) {
      division.run_at = DealBins(run_costs, pass_.ranks(), slots);
      division.step_time = LockstepCost(run_costs, pass_.ranks());
    } else {
      const std::vector<uint32_t> rank_of =
          EvenParts(run_costs, pass_.ranks(),
                    {.equal_counts = true, .effort = pass_.effort(), .allowance = allowance_});
      std::vector<uint64_t> sums(pass_.ranks(), 0);
      for (size_t run = 0; run < run_costs.size(); ++run) sums[rank_of[run]] += run_costs[run];
      division.step_time = *std::max_element(sums.begin(), sums.end());
      division.run_at.resize(run_costs.size());
      std::iota(division.run_at.begin(), division.run_at.end(), 0u);
      std::stable_sort(division.run_at.begin(), division.run_at.end(),
                       [&](uint32_t a, uint32_t b) { return rank_of[a] < rank_of[b]; });
    }
    division.step_time += slots * per_microbatch_;
    return division;
  }

  const PassInstance& pass_;
  const Allowance& allowance_;
  const bool lockstep_;
  const Items items_;
  const SortedItems sorted_;
  std::vector<uint64_t> costs_;  // of one sequence, by place in the sorted order
  uint64_t per_microbatch_ = 0;
};

}  // namespace

std::optional<MiniBatchPlacement> SolvePadded(const PassInstance& pass,
                                              std::span<const SequenceIndex> mini_batch,
                                              const Allowance& allowance) {
  const bool bound_to_ranks = pass.options().equal_sequence_counts ||
                              (pass.groups_keep_rank() && !pass.groups_keep_microbatch());
  if (bound_to_ranks) return std::nullopt;
  return Solver(pass, mini_batch, allowance).Run();
}

}  // namespace batchplan
