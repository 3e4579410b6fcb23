// How MiniBatchPlacer places slots of one kind, and rows of joint passes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/place/kinds_apart.h"
#include "server/planner/place/mini_batch_placer.h"
#include "server/planner/place/place.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/ranks/conflicts.h"
#include "server/planner/ranks/reference_methods.h"
#include "server/planner/ranks/shard.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/rows/reference_trees.h"
#include "server/planner/rows/solve_rows.h"

namespace batchplan {
namespace {

// Sequences share much if they cost so many times as much apart.
constexpr double kMuch = 1.25;

// If the sequences share much: a lower bound, in units of the cost model, on the time of rows that
// share nothing, which are then hardly ever the fastest. Only where nothing else restricts rows.
std::optional<double> UnsharedTime(const Pass& pass, std::span<const SequenceIndex> mini_batch) {
  const bool is_restricted = pass.pipeline() != nullptr || pass.groups_keep_rank() ||
                             pass.options().keeps_counts() || pass.row_multiple() > 1 ||
                             !pass.loads().phases().empty() || !pass.loads().limits().empty();
  if (pass.prefixes() == nullptr || pass.effort() == Effort::kFast || is_restricted) {
    return std::nullopt;
  }
  const auto apart = static_cast<double>(UniqueOf(*pass.plain(), mini_batch).computation);
  if (apart < kMuch * static_cast<double>(UniqueOf(pass, mini_batch).computation)) {
    return std::nullopt;
  }
  return IdealStepTime(pass, apart, 1);
}

}  // namespace

// Places each class of kinds as a mini-batch of its own.
absl::StatusOr<Placement> MiniBatchPlacer::PlaceApart(size_t k,
                                                      std::span<const KindClass> classes) const {
  if (absl::Status status = CheckClasses(*lead_, classes, lead_->WhereOf(k)); !status.ok()) {
    return status;
  }
  const auto place = [&](const KindClass& own, uint64_t least) -> absl::StatusOr<Placement> {
    CountRule counts = lead_->schedule_counts();
    counts.minimum = least;
    const Pass of_one = lead_->OfOneKind(/*may_be_empty=*/own.kind == 0, counts);
    const MiniBatchPlacer placer({&of_one}, of_one, seed_, sequences_, allowance_);
    absl::StatusOr<MiniBatchPlacement> placed = placer.Place(k, own.sequences);
    if (!placed.ok()) return placed.status();
    return std::move(placed->lead());
  };
  std::vector<Placement> placements;
  uint64_t slots = 0;
  for (const KindClass& own : classes) {
    const Allowance::Part part(allowance_, classes.size() - placements.size());
    absl::StatusOr<Placement> placed = place(own, 1);
    if (!placed.ok()) return placed;
    slots += placed->slots;
    placements.push_back(*std::move(placed));
  }
  // Slots that lack for an allowed number come from the class that has most to divide.
  for (bool found = true; found && lead_->counts().RoundUp(slots) > slots;) {
    found = false;
    std::vector<size_t> order(classes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t c) {
      return classes[c].sequences.size() / placements[c].slots;
    });
    const uint64_t missing = lead_->counts().RoundUp(slots) - slots;
    for (const size_t c : order) {
      absl::StatusOr<Placement> placed = place(classes[c], placements[c].slots + missing);
      if (absl::IsCancelled(placed.status())) return placed;
      if (!placed.ok()) continue;
      slots += placed->slots - placements[c].slots;
      placements[c] = *std::move(placed);
      found = true;
      break;
    }
  }
  if (lead_->counts().RoundUp(slots) != slots) {
    return WrongSlotsOfKinds(*lead_, slots, lead_->WhereOf(k));
  }
  return Joined(*lead_, placements,
                /*keeps_ranks=*/first_.options().sequence_counts != EqualCounts::kAny);
}

// Places kinds apart, or as if there were no kinds if such slots keep the rule. If groups keep to
// ranks, or ranks to their counts, the kinds of each rank are placed apart.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceByKinds(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  // Placed apart, kinds may get to other ranks and change counts.
  const bool tears = lead_->units_are_lists_of_items() ||
                     first_.options().sequence_counts == EqualCounts::kWithinOne;
  absl::StatusOr<Placement> best = absl::InvalidArgumentError("");
  if (!tears) best = PlaceApart(k, ClassesOf(*lead_, mini_batch));
  if (absl::IsCancelled(best.status())) return best.status();
  const Pass of_any = lead_->OfOneKind(/*may_be_empty=*/true, lead_->counts());
  const MiniBatchPlacer placer({&of_any}, of_any, seed_, sequences_, allowance_);
  absl::StatusOr<MiniBatchPlacement> any = placer.Place(k, mini_batch);
  if (absl::IsCancelled(any.status())) return any;
  if (any.ok()) {
    Placement& mixed = any->lead();
    mixed.whole_slots = true;
    if (KeepsKinds(*lead_, mixed.microbatches, mixed.slots) &&
        (!best.ok() || StepTime(*lead_, mixed, allowance_) < StepTime(*lead_, *best, allowance_))) {
      best = mixed;
    }
    if (!best.ok()) {
      // On the ranks that sequences have in that placement.
      absl::StatusOr<MiniBatchPlacement> placed =
          Fill(k, {.shares = std::move(any->shares), .passes = {}});
      if (placed.ok() || tears) return placed;
    }
  }
  if (!best.ok()) return tears ? any.status() : best.status();
  MiniBatchPlacement placed{.shares = SharesOf(SequenceLists::Singles(mini_batch),
                                               RanksOf(*best, mini_batch), lead_->ranks()),
                            .passes = {}};
  placed.passes.push_back(*std::move(best));
  return Fill(k, std::move(placed));
}

// Adds the placements of the tree presets, unless there are constraints that they don't know.
void MiniBatchPlacer::AddTreePresets(std::span<const SequenceIndex> mini_batch,
                                     std::vector<Placement>& placements) const {
  PassOptions options = lead_->options();
  if (lead_->effort() == Effort::kFast || options.keeps_counts() || lead_->groups_keep_rank() ||
      lead_->rank_multiple() > 1 || !TriesReferences(lead_->effort(), mini_batch.size())) {
    return;
  }
  for (const Sharding sharding :
       {Sharding::kArealTree, Sharding::kTrlTree, Sharding::kArtPrefixTree}) {
    options.sharding = sharding;
    const Pass preset = lead_->With(options);
    std::optional<Placement> placement = PlaceAsTrees(preset, mini_batch, allowance_);
    if (!placement) continue;
    placement->method = MethodOf(preset.options());
    placements.push_back(*std::move(placement));
  }
}

// Adds a placement in which sequences without phases have slots of their own, so that few slots
// wait for a phase.
void MiniBatchPlacer::AddPhasesApart(size_t k, std::span<const SequenceIndex> mini_batch,
                                     std::vector<Placement>& placements) const {
  if (lead_->without_phases() == nullptr || lead_->effort() == Effort::kFast ||
      lead_->options().keeps_counts() || lead_->units_are_lists_of_items() ||
      !TriesReferences(lead_->effort(), mini_batch.size())) {
    return;
  }
  const std::vector<KindClass> classes = ClassesByPhases(*lead_, mini_batch);
  if (classes.size() < 2) return;
  absl::StatusOr<Placement> apart = PlaceApart(k, classes);
  if (apart.ok()) placements.push_back(*std::move(apart));
}

absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceJoint(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  if (first_.options().sequence_counts == EqualCounts::kExact &&
      mini_batch.size() % first_.ranks() != 0) {
    return SequencesDontDivide(*lead_, mini_batch.size(), lead_->WhereOf(k));
  }
  const SearchContext context = ContextOf(k, lead_->WhereOf(k));
  std::vector<Placement> others;
  const auto add_plain = [&](const Pass& plain) {
    const Allowance::Part part(allowance_, 2 * passes_.size());
    const MiniBatchPlacer placer({&plain}, plain, seed_, sequences_, allowance_);
    absl::StatusOr<MiniBatchPlacement> placed = placer.Place(k, mini_batch);
    if (!placed.ok()) return;
    LayRows(*lead_, placed->lead());
    others.push_back(std::move(placed->lead()));
  };
  const std::optional<double> unshared = UnsharedTime(*lead_, mini_batch);
  if (unshared) add_plain(lead_->plain()->With(Effort::kFast));
  for (const Pass* plain : {lead_->plain(), lead_->without_phases(), lead_->without_multiple()}) {
    if (plain != nullptr && (!unshared || others.empty())) add_plain(*plain);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
  }
  if (lead_->prefixes() != nullptr) AddTreePresets(mini_batch, others);
  AddPhasesApart(k, mini_batch, others);
  std::vector<Placement> found = [&] {
    const Allowance::Part part(allowance_, passes_.size());
    return SolveRows(*lead_, mini_batch, {}, std::move(others), PresetsWithLoads(k, mini_batch),
                     context);
  }();
  if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
  if (unshared && !found.empty()) {
    // If rows that share nothing may yet be faster, all effort goes into them.
    const Cost time = StepTime(*lead_, found.front(), allowance_);
    if (lead_->cost().ToUnits(time) > *unshared) {
      others.clear();
      add_plain(*lead_->plain());
      if (!others.empty() && StepTime(*lead_, others.front(), allowance_) < time) {
        others.front().proven = {};
        others.front().tried = found.front().tried;
        found.insert(found.begin(), std::move(others.front()));
      }
    }
  }
  for (Placement& placement : found) {
    MiniBatchPlacement placed{.shares = SharesOf(SequenceLists::Singles(mini_batch),
                                                 RanksOf(placement, mini_batch), first_.ranks()),
                              .passes = {}};
    placed.passes.push_back(std::move(placement));
    absl::StatusOr<MiniBatchPlacement> filled = Fill(k, std::move(placed));
    if (!filled.ok() && absl::IsInvalidArgument(filled.status())) continue;
    if (filled.ok()) PutCostliestRowsFirst(*lead_, filled->lead());
    return filled;
  }
  return lead_->loads().limits().empty() ? PlaceBest(k, mini_batch)
                                         : PlaceWithinLimits(k, mini_batch);
}

// The presets' placements that keep loads in mind, of which plain passes know little.
std::vector<Placement> MiniBatchPlacer::PresetsWithLoads(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  std::vector<Placement> placements;
  if (lead_->loads().limits().empty() && lead_->loads().phases().empty()) return placements;
  if (!TriesReferences(lead_->effort(), mini_batch.size())) return placements;
  const MiniBatchItems items(*lead_, mini_batch);
  for (const Pass& reference : references_) {
    if (allowance_.spent() || allowance_.stop_requested()) break;
    absl::StatusOr<MiniBatchPlacement> placed =
        PlaceBySharding(reference, items, ContextOf(k, lead_->WhereOf(k)));
    if (placed.ok()) placements.push_back(std::move(placed->lead()));
  }
  return placements;
}

// If no search has found rows within limits on loads: puts each sequence where it has room.
absl::StatusOr<MiniBatchPlacement> MiniBatchPlacer::PlaceWithinLimits(
    size_t k, std::span<const SequenceIndex> mini_batch) const {
  PassOptions options = lead_->options();
  options.sharding = lead_->may_deal_bins() ? Sharding::kDealBins : Sharding::kLpt;
  const Pass dealt = lead_->With(options);
  absl::StatusOr<MiniBatchPlacement> placed =
      PlaceBySharding(dealt, MiniBatchItems(dealt, mini_batch), ContextOf(k, lead_->WhereOf(k)));
  return placed.ok() ? Fill(k, *std::move(placed)) : placed;
}

}  // namespace batchplan
