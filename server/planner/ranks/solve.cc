#include "server/planner/ranks/solve.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/balance/accumulated.h"
#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/rank_bins.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/padded/equal_runs.h"
#include "server/planner/padded/splits.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/ranks/fill_bins.h"
#include "server/planner/ranks/more_slots.h"
#include "server/planner/ranks/solve_lockstep.h"
#include "server/planner/ranks/solve_pipeline.h"

namespace batchplan {
namespace {

bool MayTakeAnyRank(const Pass& pass, size_t sequences) {
  if (!pass.options().keeps_counts()) return pass.may_deal_bins();
  const bool shares_counts =
      pass.synchronization() == Synchronization::kLockstep || pass.pipeline() != nullptr;
  const bool divides =
      pass.options().sequence_counts == EqualCounts::kWithinOne || sequences % pass.ranks() == 0;
  return shares_counts && !pass.groups_keep_rank() && pass.rank_multiple() == 1 && divides;
}

class PackedSolver {
 public:
  PackedSolver(const Pass& pass, const Items& items, const Allowance& allowance,
               LockstepFindings* findings)
      : pass_(pass),
        allowance_(allowance),
        findings_(findings),
        items_(items),
        objective_(pass.ObjectiveOf(items_)),
        packing_{.lengths = items_.lengths, .counts = items_.counts, .loads = objective_.loads},
        most_slots_(items_.size() / pass.ranks()) {}

  std::optional<MiniBatchPlacement> Run() {
    const std::optional<Bins> bins = Solve();
    if (!bins || allowance_.stop_requested()) return std::nullopt;
    MiniBatchPlacement placement = Placed(*bins);
    placement.lead().proven = proven_;
    placement.lead().tried = std::move(tried_);
    return placement;
  }

 private:
  std::optional<Bins> Solve() {
    if (pass_.pipeline() == nullptr && pass_.synchronization() == Synchronization::kLockstep) {
      return Lockstep();
    }
    uint64_t slots = FewestSlots(packing_, pass_.bin_limits(), pass_.ranks(), pass_.counts());
    if (slots > most_slots_) return std::nullopt;
    if (pass_.pipeline() != nullptr) {
      return SolveOnPipelines(
          pass_, packing_, static_cast<double>(objective_.per_microbatch), {}, slots, most_slots_,
          [&](const PipelineBins& solved) {
            Note(solved.bins.size() / pass_.ranks(), solved.bins, solved.makespan);
          },
          allowance_);
    }
    const FewestBins packed =
        PackFewest(packing_, pass_.bin_limits(), slots * pass_.ranks(), pass_.effort(), allowance_);
    proven_.microbatches = packed.bound;
    const uint64_t needed = (packed.bins.size() + pass_.ranks() - 1) / pass_.ranks();
    slots = std::max(slots, pass_.counts().RoundUp(needed));
    if (slots > most_slots_ || allowance_.stop_requested()) return std::nullopt;
    return BalanceAccumulated(packing_, pass_.bin_limits(), pass_.ranks(), slots, packed.bins,
                              pass_.effort(), allowance_);
  }

  std::optional<Bins> Lockstep() {
    std::optional<LockstepSlots> solved = SolveLockstep(
        {.items = packing_,
         .limits = pass_.bin_limits(),
         .ranks = pass_.ranks(),
         .counts = pass_.counts(),
         .per_microbatch = objective_.per_microbatch,
         .equal_counts = pass_.options().keeps_counts(),
         .effort = pass_.effort(),
         .solved = [&](uint64_t slots, const Bins& bins,
                       uint64_t step_time) { Note(slots, bins, static_cast<double>(step_time)); },
         .findings = findings_},
        allowance_);
    if (!solved) return std::nullopt;
    proven_.microbatches = solved->fewest_bins;
    if (objective_.is_cost) proven_.lockstep_time = solved->bound;
    return std::move(solved->bins);
  }

  MiniBatchPlacement Placed(const Bins& bins) const {
    std::vector<uint32_t> bin_at(bins.size());
    std::iota(bin_at.begin(), bin_at.end(), 0u);
    return PlacementOf(pass_, items_, bins, bin_at);
  }

  // `time` is the solver's time of the bins. It is the step time, unless that depends on things
  // that the solver does not see.
  void Note(uint64_t slots, const Bins& bins, double time) {
    if (allowance_.stop_requested()) return;
    if (!objective_.is_cost || pass_.options().rows != RowPadding::kNone) {
      time = static_cast<double>(TimeAsPlaced(pass_, Placed(bins).lead(), allowance_.stop()));
    }
    NoteSlots(slots, pass_.cost().ToUnits(time), tried_);
  }

  const Pass& pass_;
  const Allowance& allowance_;
  LockstepFindings* const findings_;
  const Items& items_;
  const Objective objective_;
  const PackItems packing_;
  const uint64_t most_slots_;
  Proven proven_;
  TriedSlots tried_;
};

// If one slot more does not shorten the step of up to so many items, two often do.
constexpr size_t kFew = 128;

struct Division {
  Cuts cuts;
  // Slot s of rank r is run run_at[r * slots + s].
  std::vector<uint32_t> run_at;
  uint64_t step_time = 0;
};

class PaddedSolver {
 public:
  PaddedSolver(const Pass& pass, const Items& items, const Allowance& allowance)
      : pass_(pass),
        allowance_(allowance),
        lockstep_(pass.synchronization() == Synchronization::kLockstep),
        tokens_(pass.options().balance_on == BalanceOn::kTokens),
        items_(items),
        sorted_(items_) {
    for (size_t position = 0; position < sorted_.size(); ++position) {
      const uint32_t width = items_.widths()[sorted_[position]];
      costs_.push_back(tokens_ ? width : pass.cost().OfSequence(width));
    }
    per_microbatch_ = tokens_ ? 0 : pass.cost().OfMicrobatch();
    if (!pass.options().keeps_counts()) return;
    even_ranks_ =
        EvenParts(costs_, pass.ranks(),
                  {.equal_counts = true, .effort = pass.effort(), .allowance = allowance});
  }

  std::optional<MiniBatchPlacement> Run() {
    const uint64_t ranks = pass_.ranks();
    const uint64_t most = items_.size() / ranks;
    const size_t fewest = SortedScan(sorted_.view(), pass_.padded_limits()).size() - 1;
    uint64_t slots = pass_.counts().RoundUp((fewest + ranks - 1) / ranks);
    if (slots > most || allowance_.stop_requested()) return std::nullopt;
    if (pass_.pipeline() != nullptr) return OnPipelines(slots, most);
    TriedSlots tried;
    const auto solve = [&](uint64_t number) {
      std::optional<Division> division = Divide(number);
      if (!division) return division;
      const Cost time = tokens_ ? TimeAsPlaced(pass_, Placed(*division).lead(), allowance_.stop())
                                : division->step_time;
      NoteSlots(number, pass_.cost().ToUnits(time), tried);
      return division;
    };
    std::optional<Division> best = solve(slots);
    // Equal counts may need more slots than the limits of all sequences together.
    while (!best && !Ended()) {
      slots = pass_.counts().RoundUp(slots + 1);
      if (slots > most) break;
      best = solve(slots);
    }
    if (!best) return std::nullopt;
    for (int tries = MorePaddedSlots(pass_.effort()); tries > 0 && !Ended(); --tries) {
      slots = pass_.counts().RoundUp(slots + 1);
      if (slots > most) break;
      std::optional<Division> found = solve(slots);
      if (found && found->step_time < best->step_time - best->step_time / kWorthASlot) {
        best = std::move(found);
      } else if (items_.size() > kFew) {
        break;
      }
    }
    MiniBatchPlacement placement = Placed(*best);
    placement.lead().tried = std::move(tried);
    return placement;
  }

 private:
  bool Ended() const { return allowance_.spent() || allowance_.stop_requested(); }

  // With the number of slots that finishes pipelines soonest.
  std::optional<MiniBatchPlacement> OnPipelines(uint64_t fewest, uint64_t most) const {
    std::optional<MiniBatchPlacement> best;
    Cost least = 0;
    TriedSlots tried;
    for (const uint64_t slots : SlotsOnPipelines(pass_.counts(), *pass_.pipeline(), fewest, most)) {
      if (best && (Ended() || !AffordsStepTime(pass_, slots, allowance_))) break;
      const std::optional<Division> division = Divide(slots);
      if (!division) continue;
      MiniBatchPlacement placement = Placed(*division);
      const Cost time = StepTime(pass_, placement.lead(), allowance_);
      NoteSlots(slots, pass_.cost().ToUnits(time), tried);
      if (!best || time < least) {
        best = std::move(placement);
        least = time;
      } else if (static_cast<double>(time) > kFarFromBest * static_cast<double>(least)) {
        break;
      }
    }
    if (best) best->lead().tried = std::move(tried);
    return best;
  }

  MiniBatchPlacement Placed(const Division& division) const {
    return PlacementOf(pass_, items_, sorted_.BinsOf(division.cuts), division.run_at);
  }

  std::optional<Division> Divide(uint64_t slots) const {
    return pass_.options().keeps_counts() ? DivideEqually(slots) : DivideFreely(slots);
  }

  // The best of equally many sequences on each rank. Nothing if none are found.
  std::optional<Division> DivideEqually(uint64_t slots) const {
    const EqualRunsTask task = {.items = sorted_.view(),
                                .costs = costs_,
                                .limits = pass_.padded_limits(),
                                .ranks = pass_.ranks(),
                                .slots = slots,
                                .lockstep = lockstep_};
    std::optional<EqualRuns> best;
    uint64_t least = std::numeric_limits<uint64_t>::max();
    const auto take = [&](std::optional<EqualRuns> runs) {
      if (!runs) return;
      const uint64_t time = StepCost(task, *runs);
      if (time >= least) return;
      best = std::move(runs);
      least = time;
    };
    for (const bool by_level : {true, false}) take(EqualBlocks(task, by_level, allowance_));
    for (const bool by_level : {true, false}) {
      take(RunsOfShares(task, even_ranks_, by_level, allowance_));
    }
    if (!best || allowance_.stop_requested()) return std::nullopt;
    // All numbers of slots together have as many steps as one number of free runs.
    const uint64_t steps = RefineSteps(items_.size(), pass_.effort()) /
                           static_cast<uint64_t>(1 + MorePaddedSlots(pass_.effort()));
    EqualRuns runs = ImproveEqualRuns(task, *std::move(best), steps, allowance_);
    const uint64_t time = StepCost(task, runs) + slots * per_microbatch_;
    Division division{.cuts = std::move(runs.cuts), .run_at = {}, .step_time = time};
    // Of each rank the costliest run first.
    const std::vector<uint64_t> run_costs = RunCosts(sorted_.view(), costs_, division.cuts);
    division.run_at.resize(run_costs.size());
    std::iota(division.run_at.begin(), division.run_at.end(), 0u);
    std::stable_sort(division.run_at.begin(), division.run_at.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(runs.rank_of[a], run_costs[b]) < std::tuple(runs.rank_of[b], run_costs[a]);
    });
    return division;
  }

  Division DivideFreely(uint64_t slots) const {
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

  const Pass& pass_;
  const Allowance& allowance_;
  const bool lockstep_;
  const bool tokens_;  // instead of costs
  const Items& items_;
  const SortedItems sorted_;
  std::vector<uint64_t> costs_;  // of one sequence, by place in the sorted order
  // Where counts are equal: a rank for each place, so that costs are even.
  std::vector<uint32_t> even_ranks_;
  uint64_t per_microbatch_ = 0;
};

}  // namespace

std::optional<MiniBatchPlacement> SolvePacked(const Pass& pass, const MiniBatchItems& mini_batch,
                                              const Allowance& allowance,
                                              LockstepFindings* findings) {
  if (!MayTakeAnyRank(pass, mini_batch.sequences().size())) return std::nullopt;
  return PackedSolver(pass, mini_batch.get(), allowance, findings).Run();
}

std::optional<MiniBatchPlacement> SolvePadded(const Pass& pass, const MiniBatchItems& mini_batch,
                                              const Allowance& allowance) {
  if (pass.units_are_lists_of_items()) return std::nullopt;
  const size_t sequences = mini_batch.sequences().size();
  // Equal counts are kept among single sequences without limited loads.
  if (pass.options().keeps_counts() &&
      (pass.items_are_lists() || !pass.loads().limits().empty() ||
       (pass.options().sequence_counts == EqualCounts::kExact && sequences % pass.ranks() != 0))) {
    return std::nullopt;
  }
  return PaddedSolver(pass, mini_batch.get(), allowance).Run();
}

}  // namespace batchplan
