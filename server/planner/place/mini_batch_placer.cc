#include "server/planner/place/mini_batch_placer.h"

#include <algorithm>
#include <utility>

#include "server/planner/pass/bundles.h"
#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/slot_loads.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/place/batch_passes.h"
#include "server/planner/place/fill_shares.h"
#include "server/planner/place/place.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/ranks/conflicts.h"
#include "server/planner/ranks/fill_ranks.h"
#include "server/planner/ranks/reference_methods.h"
#include "server/planner/ranks/shard.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/seeds.h"

namespace batchplan {
namespace {

// Up to this many sequences are packed in microseconds at any effort.
constexpr uint64_t kMostForSearches = 32;

// The most empty micro-batches of a rank in any pass, and the number of all.
std::pair<size_t, size_t> EmptyMicrobatches(const MiniBatchPlacement& placed) {
  size_t most = 0;
  size_t all = 0;
  for (const Placement& placement : placed.passes) {
    for (size_t rank = 0; rank < placement.ranks(); ++rank) {
      const size_t begin = rank * placement.slots;
      size_t empty = 0;
      for (size_t slot = 0; slot < placement.slots; ++slot) {
        empty += placement.microbatches[begin + slot].empty();
      }
      most = std::max(most, empty);
      all += empty;
    }
  }
  return {most, all};
}

}  // namespace

MiniBatchPlacer::MiniBatchPlacer(std::vector<const Pass*> passes, const Pass& first, uint64_t seed,
                                 uint64_t sequences, const Allowance& allowance,
                                 std::span<LockstepFindings> findings)
    : passes_(std::move(passes)),
      twins_(TwinsOf(passes_, first.given_ranks().empty() ? 1 : 0)),
      first_(first),
      seed_(seed),
      sequences_(sequences),
      allowance_(allowance),
      findings_(findings),
      lead_(passes_.front()) {
  if (lead_ != &first_) {
    PassOptions options = lead_->options();
    options.sharding = first_.options().sharding;
    options.balance_on = first_.options().balance_on;
    options.sequence_counts = first_.options().sequence_counts;
    stand_in_.emplace(lead_->With(options));
    lead_ = &*stand_in_;
  }
  if (first_.options().sharding == Sharding::kBalanced && lead_->effort() != Effort::kFast &&
      first_.given_ranks().empty()) {
    for (const PassOptions& method : ReferenceMethods(lead_->options(), lead_->topology())) {
      references_.push_back(lead_->With(method));
    }
    for (const Pass& reference : references_) {
      std::vector<const Pass*> of_preset = passes_;
      of_preset.front() = &reference;
      presets_.push_back(std::make_unique<MiniBatchPlacer>(std::move(of_preset), reference, seed,
                                                           sequences, allowance));
    }
  }
}

SearchContext MiniBatchPlacer::ContextOf(size_t k, absl::string_view where,
                                         PackingWork work) const {
  return {.seed = MiniBatchSeed(seed_, k), .where = where, .allowance = allowance_, .work = work};
}

absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::Place(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  absl::StatusOr<MiniBatchPlacement> placed = PlaceAnywhere(k, mini_batch);
  if (!placed.ok() || !lead_->loads().deals_within_limits() ||
      KeepsLimits(*lead_, placed->lead().microbatches, placed->lead().slots)) {
    return placed;
  }
  // Packers do not know dealt loads.
  absl::StatusOr<Placement> filled =
      FillShares(*lead_, placed->shares, ContextOf(k, lead_->WhereOf(k)));
  if (!filled.ok()) return filled.status();
  MiniBatchPlacement anew{.shares = std::move(placed->shares), .passes = {}};
  anew.passes.push_back(*std::move(filled));
  return Fill(k, std::move(anew));
}

// Places by the sharding that is asked for, or otherwise.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceAnywhere(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  if (lead_->rank_multiple() > 1) {
    absl::Status fits = CheckBundles(*lead_, lead_->ItemsOf(mini_batch), lead_->WhereOf(k));
    if (!fits.ok()) return fits;
  }
  if (!first_.given_ranks().empty()) return PlaceAsGiven(k, mini_batch);
  if (lead_->keeps_kinds()) return PlaceByKinds(k, mini_batch);
  const Sharding sharding = first_.options().sharding;
  if (sharding == Sharding::kBalanced) {
    return lead_->is_joint() ? PlaceJoint(k, mini_batch) : PlaceBest(k, mini_batch);
  }
  absl::StatusOr<MiniBatchPlacement> asked = [&] {
    const Allowance::Part part(allowance_, passes_.size());
    return PlaceBySharding(*lead_, MiniBatchItems(*lead_, mini_batch),
                           ContextOf(k, lead_->WhereOf(k)));
  }();
  if (asked.ok()) asked = Fill(k, *std::move(asked));
  // Here the request names the rank of each sequence.
  if (sharding == Sharding::kStrideSorted) return asked;
  // Rows of trees may be too few for all ranks.
  if (IsOfTrees(sharding) && asked.ok()) return asked;
  return OrOtherwise(k, mini_batch, std::move(asked));
}

// The best that BestBalanced finds. If presets may come to placements that it has not looked at,
// also the best of theirs.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceBest(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  bool missed = false;
  absl::StatusOr<MiniBatchPlacement> best =
      OrOtherwise(k, mini_batch, BestBalanced(k, mini_batch, missed));
  if (best.ok() && !AffordsStepTime(*lead_, best->lead(), allowance_)) missed = false;
  if (missed && (best.ok() || absl::IsInvalidArgument(best.status()))) {
    Cost least = best.ok() ? StepTime(*lead_, best->lead(), allowance_) : 0;
    for (const std::unique_ptr<MiniBatchPlacer>& preset : presets_) {
      if (allowance_.spent() && best.ok()) break;
      absl::StatusOr<MiniBatchPlacement> placed = preset->Place(k, mini_batch);
      if (!placed.ok() && !absl::IsInvalidArgument(placed.status())) return placed;
      if (!placed.ok()) continue;
      const Cost time = StepTime(*lead_, placed->lead(), allowance_);
      if (best.ok()) {
        TriedSlots& tried = best->lead().tried;
        NoteSlots(placed->lead().tried, tried);
        NoteSlots(placed->lead().slots, lead_->cost().ToUnits(time), tried);
        if (time >= least) continue;
        placed->lead().proven = best->lead().proven;
        placed->lead().tried = std::move(tried);
      }
      best = std::move(placed);
      least = time;
    }
  }
  if (best.ok()) PutCostliestRowsFirst(*lead_, best->lead());
  return best;
}

absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::OrOtherwise(
    size_t k, std::span<const SequenceIndex> mini_batch,
    absl::StatusOr<MiniBatchPlacement> asked) const {
  const Sharding sharding = first_.options().sharding;
  if (asked.ok() && first_.allow_empty()) return EvenIfFewerEmpty(k, mini_batch, *std::move(asked));
  if (!absl::IsInvalidArgument(asked.status())) return asked;
  if (first_.options().sequence_counts == EqualCounts::kExact &&
      mini_batch.size() % first_.ranks() != 0) {
    return asked;
  }
  for (const Pass* pass : passes_) {
    absl::Status possible = CheckPossible(*pass, mini_batch, pass->WhereOf(k));
    if (!possible.ok()) return possible;
  }

  if (lead_->may_deal_bins() && sharding != Sharding::kDealBins &&
      sharding != Sharding::kContiguous) {
    absl::StatusOr<MiniBatchPlacement> placed =
        PackAndDeal(*lead_, MiniBatchItems(*lead_, mini_batch), ContextOf(k, lead_->WhereOf(k)));
    if (placed.ok()) placed = Fill(k, *std::move(placed));
    if (!absl::IsInvalidArgument(placed.status())) return placed;
  }
  if (!first_.options().keeps_counts()) {
    absl::StatusOr<MiniBatchPlacement> placed = PlaceEvenly(k, mini_batch);
    if (!absl::IsInvalidArgument(placed.status())) return placed;
  }
  return Search(k, mini_batch, asked.status());
}

absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceAsGiven(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  MiniBatchPlacement placed{.shares = GivenShares(first_, mini_batch), .passes = {}};
  if (first_.options().keeps_counts()) {
    RankCount fewest{.rank = 0, .sequences = placed.shares[0].size()};
    RankCount most = fewest;
    for (size_t rank = 1; rank < placed.shares.size(); ++rank) {
      const RankCount count{.rank = rank, .sequences = placed.shares[rank].size()};
      if (count.sequences < fewest.sequences) fewest = count;
      if (count.sequences > most.sequences) most = count;
    }
    const uint64_t allowed = first_.options().sequence_counts == EqualCounts::kWithinOne ? 1 : 0;
    if (most.sequences - fewest.sequences > allowed) {
      return UnequalCounts(first_, fewest, most, lead_->WhereOf(k));
    }
  }
  for (size_t rank = 0; rank < placed.shares.size(); ++rank) {
    if (placed.shares[rank].empty() && !first_.allow_empty()) {
      return NothingOnRank(first_, rank, lead_->WhereOf(k));
    }
  }
  return Fill(k, std::move(placed));
}

// The fastest of the balanced placements that all other passes accept. If some leave no rank with
// more empty micro-batches than the even placement does, the others are left out, and the even
// placement is a candidate too. Sets `missed` if a candidate was, or may have been, refused or left
// out: the preset that makes it may then come to another placement.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::BestBalanced(
    size_t k, std::span<const SequenceIndex> mini_batch, bool& missed) const {
  // Further candidates are of use only if another pass or empty micro-batches can decide.
  const bool only_best = passes_.size() == 1 && !KeepsEmptyEven();
  absl::StatusOr<BalancedPlacements> candidates = [&] {
    const Allowance::Part part(allowance_, passes_.size());
    return PlaceBalanced(*lead_, references_, mini_batch, only_best ? 1 : references_.size() + 2,
                         ContextOf(k, lead_->WhereOf(k)),
                         findings_.empty() ? nullptr : &findings_[k]);
  }();
  if (!candidates.ok()) {
    missed = true;
    return candidates.status();
  }
  missed = candidates->missed;
  absl::StatusOr<MiniBatchPlacement> best;
  std::optional<absl::StatusOr<MiniBatchPlacement>> even;
  std::vector<MiniBatchPlacement>& placements = candidates->placements;
  size_t next = 0;
  while (next < placements.size()) {
    absl::StatusOr<MiniBatchPlacement> placed = Fill(k, std::move(placements[next++]));
    if (absl::IsInvalidArgument(placed.status())) {
      missed = true;
      if (!best.ok()) best = std::move(placed);
      continue;
    }
    if (!placed.ok() || !KeepsEmptyEven()) {
      best = std::move(placed);
      break;
    }
    const std::pair<size_t, size_t> empty = EmptyMicrobatches(*placed);
    missed = missed || empty.second > 0;
    if (empty.second > 0 && !even) even = PlaceEvenly(k, mini_batch);
    if (even && even->ok()) {
      const std::pair<size_t, size_t> even_empty = EmptyMicrobatches(**even);
      if (even_empty < empty) {
        if (!best.ok()) best = std::move(placed);
        continue;
      }
      Placement& evenly = (*even)->lead();
      const Placement& asked = placed->lead();
      if (even_empty == empty && AffordsStepTime(*lead_, evenly, allowance_) &&
          StepTime(*lead_, evenly, allowance_) < StepTime(*lead_, asked, allowance_)) {
        evenly.proven = asked.proven;
        NoteSlots(asked.tried, evenly.tried);
        placed = *std::move(even);
      }
    }
    best = std::move(placed);
    break;
  }
  for (; next < placements.size() && !missed; ++next) {
    missed = MayBeReplaced(k, std::move(placements[next]));
  }
  return best;
}

// Whether another pass may refuse the placement, or may leave micro-batches empty. If greedy
// packers make all passes without empty ones, the searches do too.
bool MiniBatchPlacer::MayBeReplaced(size_t k, MiniBatchPlacement placement) const {
  if (EmptyMicrobatches(placement).second > 0) return true;
  const std::span others = std::span(passes_).subspan(placement.passes.size());
  if (std::none_of(others.begin(), others.end(),
                   [&](const Pass* pass) { return MayRunShort(*pass, placement.shares); })) {
    return false;
  }
  const absl::StatusOr<MiniBatchPlacement> filled =
      Fill(k, std::move(placement), PackingWork::kGreedy);
  return !filled.ok() || EmptyMicrobatches(*filled).second > 0;
}

// Whether no rank may have more empty micro-batches than in the even placement.
bool MiniBatchPlacer::KeepsEmptyEven() const {
  return first_.allow_empty() && !first_.options().keeps_counts();
}

absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceEvenly(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  const Units units = first_.UnitsOf(mini_batch);
  absl::StatusOr<MiniBatchPlacement> placed = PlaceAt(k, units, ShardEvenly(first_, units));
  if (placed.ok()) placed->lead().method = kEvenMethod;
  return placed;
}

absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceAt(size_t k, const Units& units,
                                                            std::span<const uint32_t> rank_of,
                                                            PackingWork work) const {
  absl::StatusOr<MiniBatchPlacement> placed =
      Fill(k, {.shares = SharesOf(units.sequences, rank_of, first_.ranks()), .passes = {}}, work);
  if (placed.ok()) placed->lead().method = kSearchedMethod;
  return placed;
}

// The even placement if some rank then has fewer empty micro-batches than in `asked`; else `asked`.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::EvenIfFewerEmpty(
    size_t k, std::span<const SequenceIndex> mini_batch, MiniBatchPlacement asked) const {
  const std::pair<size_t, size_t> empty = EmptyMicrobatches(asked);
  if (empty.second == 0 || first_.options().keeps_counts()) return asked;
  absl::StatusOr<MiniBatchPlacement> even = PlaceEvenly(k, mini_batch);
  if (absl::IsInvalidArgument(even.status())) return asked;
  if (even.ok() && EmptyMicrobatches(*even) >= empty) return asked;
  if (even.ok()) {
    even->lead().proven = asked.lead().proven;
    NoteSlots(asked.lead().tried, even->lead().tried);
  }
  return even;
}

// Tries every division of a few units among the ranks.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::Search(
    size_t k, std::span<const SequenceIndex> mini_batch, absl::Status reason) const {
  const Units units = first_.UnitsOf(mini_batch);
  absl::StatusOr<MiniBatchPlacement> found = std::move(reason);
  RankSearch search = SearchTerms({&units, 1});
  const PackingWork work = WorkOfTries();
  search.accept = [&](size_t, const std::vector<uint32_t>& rank_of) {
    absl::StatusOr<MiniBatchPlacement> placed = PlaceAt(k, units, rank_of, work);
    if (absl::IsInvalidArgument(placed.status())) return false;
    found = std::move(placed);
    return true;
  };
  SearchRanks({&units, 1}, search);
  if (!found.ok() || work == PackingWork::kAsAsked) return found;
  absl::StatusOr<MiniBatchPlacement> better = Fill(k, {.shares = found->shares, .passes = {}});
  if (absl::IsInvalidArgument(better.status())) return found;
  if (better.ok()) better->lead().method = kSearchedMethod;
  return better;
}

PackingWork MiniBatchPlacer::WorkOfTries() const {
  return sequences_ <= kMostForSearches ? PackingWork::kAsAsked : PackingWork::kGreedy;
}

RankSearch MiniBatchPlacer::SearchTerms(std::span<const Units> mini_batches) const {
  RankSearch search;
  search.allowance = allowance_;
  search.ranks = first_.ranks();
  search.contiguous = first_.options().sharding == Sharding::kContiguous;
  search.equal_counts = first_.options().keeps_counts();
  if (first_.allow_empty()) return search;
  uint64_t least_items = 1;
  for (const Pass* pass : passes_) {
    least_items = std::max(least_items, pass->counts().RoundUp(1));
  }
  // The most items of a unit.
  uint64_t most_items = 1;
  if (!first_.groups_keep_microbatch()) {
    for (const Units& units : mini_batches) {
      for (uint32_t count : units.counts) most_items = std::max<uint64_t>(most_items, count);
    }
  }
  search.least_units = (least_items + most_items - 1) / most_items;
  return search;
}

// Adds the passes that have no placement yet, within the shares.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::Fill(size_t k, MiniBatchPlacement placed,
                                                         PackingWork work) const {
  while (placed.passes.size() < passes_.size()) {
    const size_t i = placed.passes.size();
    if (twins_[i] < i) {
      placed.passes.push_back(placed.passes[twins_[i]]);
      continue;
    }
    const Pass& pass = *passes_[i];
    const Allowance::Part part(allowance_, passes_.size() - i);
    absl::StatusOr<Placement> filled =
        FillShares(pass, placed.shares, ContextOf(k, pass.WhereOf(k), work));
    if (!filled.ok()) return filled.status();
    placed.passes.push_back(*std::move(filled));
  }
  return placed;
}

absl::Status CheckPossible(const Pass& pass, std::span<const SequenceIndex> sequences,
                           absl::string_view where) {
  const MiniBatchItems mini_batch(pass, sequences);
  if (pass.rank_multiple() > 1) {
    absl::Status fits = CheckBundles(pass, mini_batch.get(), where);
    if (!fits.ok()) return fits;
  }
  if (pass.allow_empty()) return absl::OkStatus();
  const size_t items = mini_batch.get().size();
  const uint64_t fewest = FewestMicrobatchesPerRank(pass, mini_batch);
  if (fewest > items / pass.ranks()) return TooFewItems(pass, items, fewest, where);
  const size_t groups = pass.UnitLists(sequences).size();
  if (groups < pass.ranks()) return TooFewGroups(pass, groups, where);
  return absl::OkStatus();
}

}  // namespace batchplan
