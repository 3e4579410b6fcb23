#include "server/planner/place/place.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/planner/balance/rank_bins.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/place/fill_shares.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/ranks/conflicts.h"
#include "server/planner/ranks/fill_bins.h"
#include "server/planner/ranks/fill_ranks.h"
#include "server/planner/ranks/reference_methods.h"
#include "server/planner/ranks/shard.h"
#include "server/planner/ranks/solve.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/rows/reference_trees.h"
#include "server/planner/rows/solve_rows.h"

namespace batchplan {
namespace {

std::vector<uint64_t> BinLoads(const Pass& pass, const Items& items, const Bins& bins) {
  const bool tokens = pass.options().balance_on == BalanceOn::kTokens;
  std::vector<uint64_t> loads(bins.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (uint32_t item : bins[bin]) loads[bin] += tokens ? items.widths()[item] : items.costs[item];
  }
  return loads;
}

// Ticks of a placement, and for each sequence.
constexpr uint64_t kTicksToPlace = 4000;
constexpr uint64_t kTicksASequence = 200;

// A lower bound on the step of a packed pass with these shares: every rank runs its sequences and
// pays the fixed costs of the fewest micro-batches.
Cost LeastStepTime(const Pass& pass, const SequenceLists& shares) {
  Cost most = 0;
  uint64_t slots = 1;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    Cost cost = 0;
    uint64_t tokens = 0;
    for (const SequenceIndex sequence : shares[rank]) {
      tokens += pass.RoomOf(sequence);
      cost += pass.cost().OfSequence(pass.aligned()[sequence.value()]) +
              pass.loads().InMicrobatch(sequence);
    }
    most = std::max(most, cost);
    slots = std::max(slots, tokens / pass.bin_limits().capacity);
  }
  const Cost least = most + pass.counts().RoundUp(slots) * pass.cost().OfMicrobatch();
  if (pass.pipeline() == nullptr) return least;
  return static_cast<Cost>(static_cast<double>(least) * pass.pipeline()->BusiestShare());
}

// Places by a sharding of trees.
absl::StatusOr<MiniBatchPlacement> PlaceRowsOfTrees(const Pass& pass,
                                                    const MiniBatchItems& mini_batch,
                                                    const SearchContext& context) {
  const std::span<const SequenceIndex> sequences = mini_batch.sequences();
  std::optional<Placement> placement = PlaceAsTrees(pass, sequences, context.allowance);
  if (absl::Status status = CheckStop(context.allowance); !status.ok()) return status;
  if (!placement) {
    return TooFewItems(pass, sequences.size(), pass.counts().RoundUp(1), context.where);
  }
  placement->method = MethodOf(pass.options());
  MiniBatchPlacement placed{.shares = SharesOf(SequenceLists::Singles(sequences),
                                               RanksOf(*placement, sequences), pass.ranks()),
                            .passes = {}};
  placed.passes.push_back(*std::move(placement));
  return placed;
}

struct Candidate {
  MiniBatchPlacement placement;
  Cost step_time = 0;
};

// Up to this many sequences are also solved with the least effort, in microseconds, unless the
// solution is proven to be the best.
constexpr size_t kFew = 128;
// Larger mini-batches too, if the solution is more than 1 / kFarAboveBound above its bound.
constexpr Cost kFarAboveBound = 1000;

// Whole plans of so many sequences in one mini-batch are compared at all efforts (efforts.h).
constexpr size_t kComparedWhole = 65536;

// Whether the solver may find a shorter step with less effort, in little of the time of this
// solution. Of several mini-batches each may be the shortest at another effort.
bool LessMayBeShorter(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                      const Placement& solved, Cost time) {
  if (pass.pipeline() != nullptr) return false;
  if (pass.mini_batches() == 1 && mini_batch.size() <= kComparedWhole) return false;
  const bool is_packed = pass.options().layout == Layout::kPacked;
  // The solver does not see the padding of rows.
  if (is_packed && pass.options().rows != RowPadding::kNone) return true;
  const bool is_few = mini_batch.size() <= kFew;
  if (!is_packed) return is_few;
  Cost bound = solved.proven.lockstep_time;
  if (bound == 0) {
    for (const SequenceIndex sequence : mini_batch) {
      bound += pass.cost().OfSequence(pass.aligned()[sequence.value()]) +
               pass.loads().InMicrobatch(sequence);
    }
    bound /= pass.ranks();
  }
  bound += solved.slots * pass.cost().OfMicrobatch();
  return time > bound + (is_few ? 0 : bound / kFarAboveBound);
}

}  // namespace

absl::StatusOr<MiniBatchPlacement> PlaceBySharding(const Pass& pass,
                                                   const MiniBatchItems& mini_batch,
                                                   const SearchContext& context, Cost limit) {
  if (absl::Status status = CheckStop(context.allowance); !status.ok()) return status;
  if (pass.options().sharding == Sharding::kDealBins && pass.may_deal_bins()) {
    absl::StatusOr<MiniBatchPlacement> dealt = PackAndDeal(pass, mini_batch, context);
    if (dealt.ok()) dealt->lead().method = MethodOf(pass.options());
    return dealt;
  }
  if (IsOfTrees(pass.options().sharding)) {
    if (pass.options().layout == Layout::kPacked) {
      return PlaceRowsOfTrees(pass, mini_batch, context);
    }
    // A later pass without packed rows that leads, since the first ignores mini-batches.
    PassOptions options = pass.options();
    options.sharding = Sharding::kBalanced;
    return PlaceBySharding(pass.With(options), mini_batch, context, limit);
  }
  const Units units = pass.UnitsOf(mini_batch.sequences());
  const absl::StatusOr<std::vector<uint32_t>> rank_of = ShardUnits(pass, units, context);
  if (!rank_of.ok()) return rank_of.status();
  if (absl::Status status = CheckStop(context.allowance); !status.ok()) return status;
  SequenceLists shares = SharesOf(units.sequences, *rank_of, pass.ranks());
  if (limit < kNoStepTimeLimit && !MayRunShort(pass, shares) &&
      LeastStepTime(pass, shares) >= limit) {
    return absl::OutOfRangeError("the step is longer than is of use");
  }
  const bool is_searched =
      pass.options().layout == Layout::kPadded && pass.options().sharding == Sharding::kBalanced;
  absl::StatusOr<Placement> filled =
      is_searched ? SearchShares(pass, shares, context) : FillRanks(pass, shares, context);
  if (!filled.ok()) return filled.status();
  MiniBatchPlacement placed{.shares = std::move(shares), .passes = {}};
  placed.passes.push_back(*std::move(filled));
  placed.lead().method = MethodOf(pass.options());
  return placed;
}

absl::StatusOr<MiniBatchPlacement> PackAndDeal(const Pass& pass, const MiniBatchItems& mini_batch,
                                               const SearchContext& context) {
  const Allowance& allowance = context.allowance;
  const uint32_t ranks = pass.ranks();
  const Items& items = mini_batch.get();
  const Bins draft = [&] {
    const Allowance::Part part(allowance, 2);
    return DraftPacked(pass, items, context);
  }();
  const uint64_t wanted = pass.counts().RoundUp((draft.size() + ranks - 1) / ranks);
  const uint64_t available = items.size() / ranks;
  uint64_t slots = wanted <= available ? wanted : pass.counts().RoundDown(available);
  std::optional<Bins> bins;
  if (slots > 0) bins = SettlePacked(pass, items, draft, slots * ranks, ranks, context);
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  if (!bins) {
    if (!pass.allow_empty()) return TooFewItems(pass, items.size(), wanted, context.where);
    if (wanted > pass.most_with_empty() / ranks) return TooManyEmpty(pass, wanted, context.where);
    slots = wanted;
    const size_t filled = std::min<size_t>(slots * ranks, items.size());
    bins = SettlePacked(pass, items, draft, filled, ranks, context);
  }

  MiniBatchPlacement dealt =
      PlacementOf(pass, items, *bins, DealBins(BinLoads(pass, items, *bins), ranks, slots));
  dealt.lead().method = kDealtMethod;
  return dealt;
}

absl::StatusOr<BalancedPlacements> PlaceBalanced(const Pass& pass, std::span<const Pass> references,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 size_t most, const SearchContext& context,
                                                 LockstepFindings* findings) {
  const Allowance& allowance = context.allowance;
  const bool has_references = TriesReferences(pass.effort(), mini_batch.size());
  const uint64_t ticks_to_place = kTicksToPlace + kTicksASequence * mini_batch.size();
  const bool is_packed = pass.options().layout == Layout::kPacked;
  const MiniBatchItems items(pass, mini_batch);
  const auto solve = [&](const Pass& at_effort) {
    return is_packed ? SolvePacked(at_effort, items, allowance, findings)
                     : SolvePadded(at_effort, items, allowance);
  };
  std::vector<Candidate> candidates;  // by step time, of equal ones the earlier first
  TriedSlots tried;
  const auto add = [&](MiniBatchPlacement placement) {
    NoteSlots(placement.lead().tried, tried);
    // A single candidate is the best, however slow.
    const bool compares = has_references && AffordsStepTime(pass, placement.lead(), allowance);
    if (!compares && !candidates.empty()) return;
    const Cost time = compares ? StepTime(pass, placement.lead(), allowance) : 0;
    if (compares) NoteSlots(placement.lead().slots, pass.cost().ToUnits(time), tried);
    const auto place = std::upper_bound(
        candidates.begin(), candidates.end(), time,
        [](Cost value, const Candidate& candidate) { return value < candidate.step_time; });
    candidates.insert(place, {.placement = std::move(placement), .step_time = time});
    if (candidates.size() > most) candidates.pop_back();
  };

  BalancedPlacements result;
  Proven proven;
  {
    const Allowance::Part part(allowance, has_references ? 2 : 1);
    allowance.Spend(ticks_to_place);
    std::optional<MiniBatchPlacement> solved = solve(pass);
    if (solved) {
      proven = solved->lead().proven;
      add(*std::move(solved));
    }
  }
  if (has_references && !candidates.empty() && !allowance.spent() &&
      LessMayBeShorter(pass, mini_batch, candidates.front().placement.lead(),
                       candidates.front().step_time)) {
    const Pass with_less = pass.With(Effort::kFast);
    const Allowance::Part part(allowance, 4);
    std::optional<MiniBatchPlacement> solved = solve(with_less);
    if (solved) add(*std::move(solved));
  }
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  absl::Status refused;
  if (candidates.empty()) {
    absl::StatusOr<MiniBatchPlacement> sharded = PlaceBySharding(pass, items, context);
    if (sharded.ok()) {
      add(*std::move(sharded));
    } else {
      refused = sharded.status();
    }
  }
  if (has_references) {
    for (const Pass& reference : references) {
      if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
      // Without any placement the request may be refused, so these are made whatever is left.
      if (allowance.left() < ticks_to_place && !candidates.empty()) break;
      allowance.Spend(ticks_to_place);
      // If only one is wanted, placements no faster than the best are of no use.
      const bool must_win = most == 1 && !candidates.empty() && is_packed;
      absl::StatusOr<MiniBatchPlacement> placed = PlaceBySharding(
          reference, items, context, must_win ? candidates.front().step_time : kNoStepTimeLimit);
      result.missed = result.missed || absl::IsInvalidArgument(placed.status());
      if (placed.ok()) add(*std::move(placed));
    }
  }
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  if (candidates.empty()) return refused;
  for (Candidate& candidate : candidates) {
    candidate.placement.lead().proven = proven;
    candidate.placement.lead().tried = tried;
    result.placements.push_back(std::move(candidate.placement));
  }
  return result;
}

}  // namespace batchplan
