#include "server/planner/place/fill_shares.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "server/planner/balance/even_parts.h"
#include "server/planner/padded/rank_splits.h"
#include "server/planner/padded/splits.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/slot_loads.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/place/kinds_apart.h"
#include "server/planner/place/place.h"
#include "server/planner/ranks/conflicts.h"
#include "server/planner/ranks/fill_bins.h"
#include "server/planner/ranks/fill_ranks.h"
#include "server/planner/ranks/more_slots.h"
#include "server/planner/ranks/reference_methods.h"
#include "server/planner/ranks/share_balancer.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/rows/solve_rows.h"

namespace batchplan {
namespace {

// The packers of the reference presets.
constexpr std::array kReferencePackers = {Packer::kModifiedFirstFitDecreasing,
                                          Packer::kKarmarkarKarp};

size_t EmptyMicrobatches(const Placement& placement) {
  size_t empty = 0;
  for (size_t m = 0; m < placement.microbatches.size(); ++m) {
    empty += placement.microbatches[m].empty();
  }
  return empty;
}

struct TimedPlacement {
  Placement placement;
  Cost step_time = 0;
};

class SharesFiller {
 public:
  SharesFiller(const Pass& pass, const SequenceLists& shares, const SearchContext& context)
      : pass_(pass),
        shares_(shares),
        context_(context),
        allowance_(context.allowance),
        padded_(pass.options().layout == Layout::kPadded),
        lockstep_(pass.synchronization() == Synchronization::kLockstep) {}

  absl::StatusOr<Placement> Run() {
    absl::StatusOr<Placement> filled = [&] {
      const Allowance::Part part(allowance_, 2);
      return FillRanks(pass_, shares_, context_);
    }();
    if (!filled.ok()) return filled;
    most_empty_ = EmptyMicrobatches(*filled);
    slots_ = filled->slots;
    NoteSlots(filled->tried, tried_);
    best_ = Timed(*std::move(filled));
    if (pass_.effort() != Effort::kFast) {
      if (padded_) {
        SplitRuns();
      } else if (pass_.options().packer == Packer::kBalanced) {
        BalanceMoreSlots();
        UseReferencePackers();
      }
    }
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    PutCostliestRowsFirst(pass_, best_.placement);
    best_.placement.proven.lockstep_time = proven_time_;
    best_.placement.tried = std::move(tried_);
    return std::move(best_.placement);
  }

 private:
  bool Ended() const { return allowance_.spent() || allowance_.stop_requested(); }

  // If the time can't be afforded, the first placement stays the best.
  TimedPlacement Timed(Placement placement) {
    Cost time = kNoStepTimeLimit;
    if (AffordsStepTime(pass_, placement, allowance_)) {
      time = StepTime(pass_, placement, allowance_);
      NoteSlots(placement.slots, pass_.cost().ToUnits(time), tried_);
    }
    return {.placement = std::move(placement), .step_time = time};
  }

  // Keeps the placement if it is the best so far.
  void Take(Placement placement) {
    if (EmptyMicrobatches(placement) > most_empty_) return;
    TimedPlacement timed = Timed(std::move(placement));
    if (timed.step_time < best_.step_time) best_ = std::move(timed);
  }

  void TakeItems() {
    items_.reserve(shares_.size());
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      items_.push_back(pass_.ItemsOf(shares_[rank]));
      item_views_.push_back(&items_.back());
      most_slots_ = std::min<uint64_t>(most_slots_, items_.back().size());
    }
  }

  Placement PlacementOf(const std::vector<Bins>& bins, size_t slots) const {
    std::vector<const Bins*> views;
    views.reserve(bins.size());
    for (const Bins& own : bins) views.push_back(&own);
    return PlacementOfRanks(pass_, item_views_, views, slots);
  }

  // Makes the micro-batches of all ranks together, with more slots than FillRanks. On pipelines
  // FillRanks has found the best number.
  void BalanceMoreSlots() {
    if (!lockstep_ || pass_.pipeline() != nullptr) return;
    TakeItems();
    const ShareBalancer balancer(pass_, item_views_, allowance_);
    if (balancer.is_cost()) {
      proven_time_ = balancer.bound();
      const Cost bound = balancer.bound() + slots_ * pass_.cost().OfMicrobatch();
      if (best_.step_time <= bound + bound / kWorthASlot) return;
    }
    const auto balance = [&](uint64_t slots) -> std::optional<TimedPlacement> {
      if (Ended()) return std::nullopt;
      const Allowance::Part part(allowance_, 2);
      const std::optional<BalancedShares> balanced =
          balancer.Balance(static_cast<uint32_t>(slots), allowance_);
      if (!balanced) return std::nullopt;
      return Timed(PlacementOf(balanced->ranks, slots));
    };
    best_ = TryMoreSlots(pass_.counts(), slots_, most_slots_, MorePackedSlots(pass_.effort()),
                         std::move(best_), balance);
  }

  void UseReferencePackers() {
    if (!TriesReferences(pass_.effort(), shares_.all().size())) return;
    for (const Packer packer : kReferencePackers) {
      if (Ended()) return;
      PassOptions options = pass_.options();
      options.packer = packer;
      absl::StatusOr<Placement> filled = FillRanks(pass_.With(options), shares_, context_);
      if (filled.ok()) Take(*std::move(filled));
    }
  }

  void SplitRuns() {
    TakeItems();
    const bool tokens = pass_.options().balance_on == BalanceOn::kTokens;
    for (const Items& items : items_) {
      const SortedItems& sorted = sorted_.emplace_back(items);
      // FillRanks has found bins of groups that are not runs.
      if (DraftPadded(pass_, sorted) > std::max<uint64_t>(slots_, 1)) return;
      std::vector<uint64_t>& costs = costs_.emplace_back();
      for (size_t position = 0; position < sorted.size(); ++position) {
        const uint32_t width = items.widths()[sorted[position]];
        costs.push_back(tokens ? width : pass_.cost().OfSequence(width));
      }
    }
    if (std::optional<TimedPlacement> found = SplitInto(slots_)) Take(std::move(found->placement));
    // If one slot more does not shorten the step, two often do.
    for (const uint64_t slots : MoreSlots()) {
      if (Ended()) return;
      std::optional<TimedPlacement> found = SplitInto(slots);
      const Cost worth = best_.step_time / kWorthASlot;
      if (found && found->step_time < best_.step_time - worth) best_ = *std::move(found);
    }
  }

  std::vector<uint64_t> MoreSlots() const {
    if (pass_.pipeline() != nullptr) {
      return SlotsOnPipelines(pass_.counts(), *pass_.pipeline(), slots_ + 1, most_slots_);
    }
    std::vector<uint64_t> more;
    uint64_t slots = slots_;
    for (int tries = MorePaddedSlots(pass_.effort()); tries > 0; --tries) {
      slots = pass_.counts().RoundUp(slots + 1);
      if (slots > most_slots_) break;
      more.push_back(slots);
    }
    return more;
  }

  enum class Way { kLevel, kLeastPadded, kHalved };

  // Nothing once a stop is requested, after which a split may have any number of runs.
  std::optional<RankSplit> SplitOf(size_t rank, Way way, size_t slots) const {
    const PaddedItems view = sorted_[rank].view();
    const PaddedLimits& limits = pass_.padded_limits();
    RankSplit split{.items = view, .costs = costs_[rank]};
    const size_t runs = std::min<size_t>(slots, view.size());
    if (runs == 0) return split;
    if (way == Way::kLevel) {
      split.cuts = LevelSplit(view, costs_[rank], limits, runs, allowance_);
    } else if (way == Way::kLeastPadded && view.size() <= kMostForOptimalSplit &&
               !allowance_.spent()) {
      split.cuts = OptimalSplit(view, limits, runs, allowance_);
    } else {
      split.cuts = HalveRuns({&view, 1}, SortedScan(view, limits), runs);
    }
    if (allowance_.stop_requested()) return std::nullopt;
    return split;
  }

  // The best of the ways to split each rank's items.
  std::optional<TimedPlacement> SplitInto(size_t slots) {
    std::optional<TimedPlacement> best;
    std::vector<RankSplit> cheapest;  // of each rank by itself
    for (const Way way : {Way::kLevel, Way::kLeastPadded, Way::kHalved}) {
      if (Ended()) break;
      std::vector<RankSplit> splits;
      for (size_t rank = 0; rank < sorted_.size(); ++rank) {
        std::optional<RankSplit> split = SplitOf(rank, way, slots);
        if (!split) return std::nullopt;
        splits.push_back(*std::move(split));
      }
      if (lockstep_) {
        ImproveRankSlots(pass_.padded_limits(), RefineSteps(shares_.all().size(), pass_.effort()),
                         splits, allowance_);
        TakeSplits(splits, slots, best);
      } else if (cheapest.empty()) {
        cheapest = std::move(splits);
      } else {
        for (size_t rank = 0; rank < splits.size(); ++rank) {
          if (LockstepCost({&splits[rank], 1}) < LockstepCost({&cheapest[rank], 1})) {
            cheapest[rank] = std::move(splits[rank]);
          }
        }
      }
    }
    if (!cheapest.empty()) TakeSplits(cheapest, slots, best);
    return best;
  }

  void TakeSplits(const std::vector<RankSplit>& splits, size_t slots,
                  std::optional<TimedPlacement>& best) {
    std::vector<Bins> bins;
    for (size_t rank = 0; rank < splits.size(); ++rank) {
      bins.push_back(sorted_[rank].BinsOf(splits[rank].cuts));
    }
    TimedPlacement timed = Timed(PlacementOf(bins, slots));
    if (!best || timed.step_time < best->step_time) best = std::move(timed);
  }

  const Pass& pass_;
  const SequenceLists& shares_;
  const SearchContext& context_;
  const Allowance& allowance_;
  const bool padded_;
  const bool lockstep_;
  // By rank; in the padded layout also sorted, with the cost of a sequence at each place.
  std::vector<Items> items_;
  std::vector<const Items*> item_views_;
  std::vector<SortedItems> sorted_;
  std::vector<std::vector<uint64_t>> costs_;
  // The result of FillRanks.
  uint64_t slots_ = 0;
  size_t most_empty_ = 0;
  // With more slots, more micro-batches would be empty.
  uint64_t most_slots_ = std::numeric_limits<uint64_t>::max();
  TimedPlacement best_;
  TriedSlots tried_;
  Cost proven_time_ = 0;
};

// With shared prefixes: the best of rows made for sharing and rows made without regard to it.
absl::StatusOr<Placement> FillTrees(const Pass& pass, const SequenceLists& shares,
                                    const SearchContext& context) {
  std::vector<SequenceIndex> sequences;
  std::vector<uint32_t> rank_of;
  for (uint32_t rank = 0; rank < shares.size(); ++rank) {
    sequences.insert(sequences.end(), shares[rank].begin(), shares[rank].end());
    rank_of.resize(sequences.size(), rank);
  }
  std::vector<Placement> others;
  absl::Status refused;
  if (pass.plain() != nullptr) {
    const Allowance::Part part(context.allowance, 2);
    absl::StatusOr<Placement> filled = FillShares(*pass.plain(), shares, context);
    if (!filled.ok() && !absl::IsInvalidArgument(filled.status())) return filled;
    if (filled.ok()) {
      LayRows(pass, *filled);
      others.push_back(*std::move(filled));
    } else {
      refused = filled.status();
    }
  }
  if (context.work == PackingWork::kGreedy && !others.empty() &&
      KeepsLimits(pass, others.front().microbatches, others.front().slots)) {
    return std::move(others.front());
  }
  std::vector<Placement> found =
      SolveRows(pass, sequences, rank_of, std::move(others), {}, context);
  if (absl::Status status = CheckStop(context.allowance); !status.ok()) return status;
  if (found.empty()) {
    if (!refused.ok()) return refused;
    absl::StatusOr<Placement> filled = FillRanks(pass, shares, context);
    if (!filled.ok() || KeepsLimits(pass, filled->microbatches, filled->slots)) return filled;
    return NotWithinLimits(pass, context.where);
  }
  PutCostliestRowsFirst(pass, found.front());
  return std::move(found.front());
}

// Fills the sequences of each kind by themselves.
absl::StatusOr<Placement> FillByKinds(const Pass& pass, const SequenceLists& shares,
                                      const SearchContext& context) {
  std::vector<Placement> placements;
  for (const KindClass& own : ClassesOf(pass, shares.all())) {
    const std::set<SequenceIndex> members(own.sequences.begin(), own.sequences.end());
    SequenceLists of_kind;
    for (size_t rank = 0; rank < shares.size(); ++rank) {
      size_t count = 0;
      for (const SequenceIndex sequence : shares[rank]) {
        if (!members.contains(sequence)) continue;
        of_kind.Push(sequence);
        ++count;
      }
      of_kind.Close();
      if (count == 0 && (own.kind != 0 || !pass.allow_empty())) {
        return NoKindOnRank(pass, rank, own, context.where);
      }
    }
    const Pass of_one = pass.OfOneKind(/*may_be_empty=*/own.kind == 0, pass.schedule_counts());
    absl::StatusOr<Placement> filled = FillShares(of_one, of_kind, context);
    if (!filled.ok()) return filled;
    placements.push_back(*std::move(filled));
  }
  Placement joined = Joined(pass, placements, /*keeps_ranks=*/true);
  if (pass.counts().RoundUp(joined.slots) == joined.slots) return joined;
  return WrongSlotsOfKinds(pass, joined.slots, context.where);
}

}  // namespace

absl::StatusOr<Placement> FillShares(const Pass& pass, const SequenceLists& shares,
                                     const SearchContext& context) {
  if (pass.keeps_kinds()) return FillByKinds(pass, shares, context);
  if (pass.is_joint()) return FillTrees(pass, shares, context);
  return pass.given_ranks().empty() ? FillRanks(pass, shares, context)
                                    : SearchShares(pass, shares, context);
}

absl::StatusOr<Placement> SearchShares(const Pass& pass, const SequenceLists& shares,
                                       const SearchContext& context) {
  return SharesFiller(pass, shares, context).Run();
}

}  // namespace batchplan
