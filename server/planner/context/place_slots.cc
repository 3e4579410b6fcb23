#include "server/planner/context/place_slots.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/assign/reference_methods.h"
#include "server/planner/cancellation.h"
#include "server/planner/context/context_time.h"
#include "server/planner/context/fixed_sizes.h"
#include "server/planner/context/follow_ranks.h"
#include "server/planner/context/item_numbers.h"
#include "server/planner/context/joint_problem.h"
#include "server/planner/context/lead_slots.h"
#include "server/planner/context/megatron_slots.h"
#include "server/planner/context/order_slots.h"
#include "server/planner/context/solve/solve_context.h"

namespace batchplan {
namespace {

bool IgnoresMiniBatches(const Pass& pass) { return pass.options().ignore_mini_batches; }

// The first pass that keeps to mini-batches, or the first of all.
size_t NumberOfLead(std::span<const Pass> passes) {
  const auto lead = std::find_if_not(passes.begin(), passes.end(), IgnoresMiniBatches);
  return lead == passes.end() ? 0 : lead - passes.begin();
}

class SlotPlacer {
 public:
  SlotPlacer(const Manifest& manifest, const PlanOptions& options, std::span<const Pass> passes,
             const PlannedLengths& planned, Alignments& alignments, const Groups& groups,
             const SequenceLists& mini_batches, const Allowance& allowance)
      : options_(options),
        passes_(passes),
        mini_batches_(mini_batches),
        allowance_(allowance),
        as_megatron_(options.passes.front().sharding == Sharding::kMegatronDynamicCp),
        fixed_(manifest, options, passes, NumberOfLead(passes), planned, alignments, groups,
               mini_batches.size()),
        items_(planned.lengths.size()),
        placements_(passes.size()) {
    for (const Pass& pass : passes) {
      (IgnoresMiniBatches(pass) ? over_all_ : within_).push_back(&pass);
    }
    if (within_.empty()) std::swap(within_, over_all_);
    whole_ = IgnoresMiniBatches(*within_.front());
    count_ = whole_ ? 1 : mini_batches.size();
    lead_times_.resize(count_);
  }

  absl::StatusOr<std::vector<PassPlacement>> Run() {
    if (absl::Status status = CheckFewest(); !status.ok()) return status;
    absl::Status placed = PlaceAll();
    if (!placed.ok() && !absl::IsInvalidArgument(placed)) return placed;
    if (!placed.ok()) {
      if (TakeFixed(std::numeric_limits<Cost>::max())) {
        placed = absl::OkStatus();
      } else if (!as_megatron_) {
        as_megatron_ = true;
        if (PlaceAll().ok()) placed = absl::OkStatus();
      }
    } else if (anew_ && !as_megatron_) {
      TakeFixed(std::accumulate(lead_times_.begin(), lead_times_.end(), Cost{0}));
    }
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (!placed.ok()) return placed;
    return std::move(placements_);
  }

 private:
  absl::Status PlaceAll() {
    for (PassPlacement& placement : placements_) placement.resize(count_);
    for (size_t k = 0; k < count_; ++k) {
      const Allowance::Part part(allowance_, count_ - k);
      if (absl::Status status = Place(k); !status.ok()) return status;
    }
    absl::Status over_all = FollowOverAll();
    if (absl::IsInvalidArgument(over_all)) over_all = PlaceAllAnew(over_all);
    if (!over_all.ok()) return over_all;
    return CheckTotal();
  }

  const Pass* lead() const { return within_.front(); }
  size_t NumberOf(const Pass* pass) const { return pass - passes_.data(); }
  std::span<const SequenceIndex> MiniBatch(size_t k) const {
    return whole_ ? mini_batches_.all() : mini_batches_[k];
  }
  std::string Where(const Pass& pass, size_t k) const {
    return count_ == 1 ? pass.where() : absl::StrCat(pass.where(), " mini-batch ", k);
  }

  // Mini-batch k in the passes that keep to mini-batches.
  absl::Status Place(size_t k) {
    const SequenceLists items = lead()->ItemLists(MiniBatch(k));
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(*lead(), items, allowance_);
    if (!problem.ok()) return problem.status();
    const std::vector<ContextSlots> found = Solve(k, items, *problem);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (found.empty()) return NothingFound(*problem, Where(*lead(), k));
    absl::Status placed = PlaceAs(k, items, *problem, found.front());
    if (!absl::IsInvalidArgument(placed)) return placed;
    anew_ = true;
    // Slower slots that the others can follow, or slots within the limits of all.
    absl::Status slower = placed;
    for (size_t i = 1; i < found.size() && absl::IsInvalidArgument(slower); ++i) {
      slower = PlaceAs(k, items, *problem, found[i]);
    }
    if (!slower.ok() && !absl::IsInvalidArgument(slower)) return slower;
    std::vector<ContextPlacement> kept;
    kept.reserve(within_.size());
    for (const Pass* const pass : within_) kept.push_back(placements_[NumberOf(pass)][k]);
    const Cost time = lead_times_[k];
    const std::vector<const Pass*> others(within_.begin() + 1, within_.end());
    absl::Status jointly = PlaceJointly(k, others, placed);
    const bool is_slower = jointly.ok() && lead_times_[k] > time;
    if (slower.ok() && (is_slower || absl::IsInvalidArgument(jointly))) {
      for (size_t i = 0; i < within_.size(); ++i) {
        placements_[NumberOf(within_[i])][k] = std::move(kept[i]);
      }
      lead_times_[k] = time;
      return absl::OkStatus();
    }
    return jointly;
  }

  // Slots of the lead, the fastest first, or as Megatron-LM's scheduler has them.
  std::vector<ContextSlots> Solve(size_t k, const SequenceLists& items,
                                  const ContextProblem& problem) {
    if (as_megatron_) {
      std::optional<ContextSlots> slots = MegatronSlots(problem, allowance_);
      if (allowance_.stop_requested()) return {};
      if (slots) {
        OrderSlots(problem, lead()->order(), allowance_, *slots);
        std::vector<ContextSlots> alone;
        alone.push_back(*std::move(slots));
        return alone;
      }
    }
    return LeadSlots(*lead(), problem, items, k, fixed_, allowance_);
  }

  // These slots of the lead, and those that follow.
  absl::Status PlaceAs(size_t k, const SequenceLists& items, const ContextProblem& problem,
                       const ContextSlots& slots) {
    lead_times_[k] = ContextTime(problem, slots, allowance_);
    placements_[NumberOf(lead())][k] = PlacementOf(*lead(), items, slots);
    for (size_t i = 1; i < within_.size(); ++i) {
      absl::StatusOr<ContextPlacement> followed = Follow(
          *within_[i], MiniBatch(k), {&placements_[NumberOf(lead())][k], 1}, Where(*within_[i], k));
      if (!followed.ok()) return followed.status();
      placements_[NumberOf(within_[i])][k] = *std::move(followed);
    }
    return absl::OkStatus();
  }

  // Within the limits of `others` too, or the reason why not.
  absl::Status PlaceJointly(size_t k, std::span<const Pass* const> others,
                            const absl::Status& reason) {
    const SequenceLists items = lead()->ItemLists(MiniBatch(k));
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(*lead(), items, allowance_);
    if (!problem.ok()) return problem.status();
    std::optional<ContextProblem> joint = JointProblem(*problem, items, others, allowance_);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (!joint) return reason;
    std::optional<ContextSlots> slots = SolveContext(*joint, {}, allowance_);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (!slots) return reason;
    // The joint problem may have fewer sizes.
    for (std::vector<ContextGroup>& slot : *slots) {
      for (ContextGroup& group : slot) {
        group.size = static_cast<uint32_t>(lead()->SizeOf(joint->sizes[group.size].ranks));
      }
    }
    OrderSlots(*problem, lead()->order(), allowance_, *slots);
    absl::Status placed = PlaceAs(k, items, *problem, *slots);
    return absl::IsInvalidArgument(placed) ? reason : placed;
  }

  // All passes on groups of the one size with which the lead takes least, if that is below `limit`;
  // whether there is one.
  bool TakeFixed(Cost limit) {
    const bool in_full = TriesReferences(options_.effort, mini_batches_.all().size() / count_);
    bool found = false;
    for (uint32_t size = 0; size < lead()->sizes().size(); ++size) {
      if (allowance_.stop_requested()) return false;
      std::optional<FixedSizes::Placements> placements = fixed_.PlaceAll(
          size, in_full ? options_.effort : Effort::kFast, mini_batches_, allowance_);
      if (!placements) continue;
      Cost time = 0;
      for (size_t i = 0; i < passes_.size(); ++i) {
        for (size_t k = 0; k < (*placements)[i].size(); ++k) {
          const bool is_one = (*placements)[i].size() == 1;
          const absl::StatusOr<Cost> own = Order(
              passes_[i], is_one ? mini_batches_.all() : mini_batches_[k], (*placements)[i][k]);
          if (!own.ok()) return false;
          if (i == NumberOf(lead())) time += *own;
        }
      }
      if (time >= limit) continue;
      limit = time;
      placements_ = *std::move(placements);
      found = true;
    }
    return found;
  }

  // Brings slots of one size into the order that their pass asks for, where they are not in it;
  // what they take then. Cancelled if a stop is requested.
  absl::StatusOr<Cost> Order(const Pass& pass, std::span<const SequenceIndex> sequences,
                             ContextPlacement& placement) {
    const SequenceLists items = pass.ItemLists(sequences);
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(pass, items, allowance_);
    if (!problem.ok()) return problem.status();
    items_.Number(items);
    ContextSlots slots;
    slots.reserve(placement.size());
    for (const std::vector<PlacedGroup>& groups : placement) {
      std::vector<ContextGroup>& slot = slots.emplace_back();
      for (const PlacedGroup& group : groups) {
        slot.push_back({.size = static_cast<uint32_t>(pass.SizeOf(group.ranks)),
                        .items = items_.In(group.sequences)});
      }
    }
    if (pass.pipeline() == nullptr) OrderSlots(*problem, pass.order(), allowance_, slots);
    placement = PlacementOf(pass, items, slots);
    return ContextTime(*problem, slots, allowance_);
  }

  // The slots of `pass` for the sequences that `lead` has placed.
  absl::StatusOr<ContextPlacement> Follow(const Pass& pass,
                                          std::span<const SequenceIndex> sequences,
                                          std::span<const ContextPlacement> lead_slots,
                                          absl::string_view where) {
    if (lead_slots.size() == 1 && IsFilledAlike(pass)) return lead_slots.front();
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    const SequenceLists items = pass.ItemLists(sequences);
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(pass, items, allowance_);
    if (!problem.ok()) return problem.status();
    items_.Number(items);
    std::vector<std::vector<RanksGroup>> lead_groups;
    for (const ContextPlacement& placement : lead_slots) {
      for (const std::vector<PlacedGroup>& slot : placement) {
        std::vector<RanksGroup>& groups = lead_groups.emplace_back();
        for (const PlacedGroup& placed : slot) {
          groups.push_back({.ranks = placed.ranks, .items = items_.In(placed.sequences)});
        }
      }
    }
    std::optional<ContextSlots> slots = FollowRanks(*problem, lead_groups);
    if (!slots) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": max_tokens_per_microbatch ", pass.options().max_tokens_per_microbatch,
          ", max_sequences_per_microbatch ", pass.options().max_sequences_per_microbatch,
          ", min_microbatches ", pass.counts().minimum, " and a multiple of ",
          pass.counts().multiple, " leave no slots in which every sequence is on the ranks that ",
          lead()->where(), " has it on; give the passes more alike limits",
          options_.allow_empty_microbatches ? "" : ", or set allow_empty_microbatches"));
    }
    OrderSlots(*problem, pass.order(), allowance_, *slots);
    return PlacementOf(pass, items, *slots);
  }

  // Whether the slots of the lead are just right for a pass.
  bool IsFilledAlike(const Pass& pass) const {
    PassOptions own = pass.options();
    own.name = lead()->options().name;
    own.sharding = lead()->options().sharding;
    own.equal_sequence_counts = lead()->options().equal_sequence_counts;
    return own == lead()->options();
  }

  // The passes that ignore mini-batches, where others keep to them.
  absl::Status FollowOverAll() {
    for (const Pass* const pass : over_all_) {
      absl::StatusOr<ContextPlacement> followed =
          Follow(*pass, mini_batches_.all(), placements_[NumberOf(lead())], pass->where());
      if (!followed.ok()) return followed.status();
      placements_[NumberOf(pass)] = {*std::move(followed)};
    }
    return absl::OkStatus();
  }

  absl::Status PlaceAllAnew(const absl::Status& reason) {
    anew_ = true;
    std::vector<const Pass*> others(within_.begin() + 1, within_.end());
    others.insert(others.end(), over_all_.begin(), over_all_.end());
    for (size_t k = 0; k < count_; ++k) {
      const Allowance::Part part(allowance_, count_ - k);
      if (absl::Status status = PlaceJointly(k, others, reason); !status.ok()) return status;
    }
    return FollowOverAll();
  }

  // That the slots of all passes and mini-batches keep to the limit of what is simulated, and their
  // empty groups to theirs.
  absl::Status CheckTotal() const {
    uint64_t microbatches = 0;
    uint64_t slots = 0;
    for (const PassPlacement& pass : placements_) {
      for (const ContextPlacement& placement : pass) {
        slots += placement.size();
        for (const auto& slot : placement) microbatches += slot.size();
      }
    }
    return CheckTotal(microbatches, slots);
  }

  // The same of what the count rules of the passes ask for, whatever the sequences.
  absl::Status CheckFewest() const {
    if (!options_.allow_empty_microbatches) return absl::OkStatus();
    uint64_t microbatches = 0;
    uint64_t slots = 0;
    for (const Pass& pass : passes_) {
      const size_t mini_batches = pass.options().ignore_mini_batches ? 1 : mini_batches_.size();
      const uint64_t fewest = pass.counts().RoundUp(1) * mini_batches;
      slots += fewest;
      microbatches += fewest * pass.fewest_groups();
    }
    return CheckTotal(microbatches, slots);
  }

  absl::Status CheckTotal(uint64_t microbatches, uint64_t slots) const {
    if (lead()->pipeline() != nullptr) {
      const bool lockstep = options_.synchronization == Synchronization::kLockstep;
      absl::Status status = CheckTotalPipelineWorks(
          options_.topology, lockstep ? slots : microbatches, passes_.size());
      if (!status.ok()) return status;
    }
    if (microbatches <= passes_.size() * mini_batches_.all().size() + kMaxEmptyMicrobatches) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan needs more than ", kMaxEmptyMicrobatches,
        " micro-batches beyond one a sequence, the limit where allow_empty_microbatches is set (",
        lead()->pool(), " ranks of topology.dynamic_context, ", count_, " mini-batches, ",
        passes_.size(), " passes)"));
  }

  static absl::Status NothingFound(const ContextProblem& problem, absl::string_view where) {
    const uint64_t slots = FewestContextSlots(problem);
    const uint32_t largest = problem.sizes.back().ranks;
    const uint64_t groups = problem.pool / largest + std::popcount(problem.pool % largest);
    const bool too_few = !problem.allow_empty && problem.items() < slots * groups;
    const absl::string_view items = problem.counts.empty() ? " sequence" : " group";
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": its ", problem.items(), items, problem.items() == 1 ? " fills" : "s fill",
        " no slots", too_few ? "" : " that were found", ": at least ", slots,
        " of them, as min_microbatches ", problem.slots.minimum, ", a multiple of ",
        problem.slots.multiple, " and max_tokens_per_microbatch ask, and in each ",
        too_few ? absl::StrCat("at least ", groups, " groups") : "groups", " of ",
        problem.sizes.front().ranks, " to ", largest, " ranks on all ", problem.pool,
        " ranks of topology.dynamic_context, none of them empty",
        too_few ? absl::StrCat(", take ", slots * groups, items, "s") : "",
        "; set allow_empty_microbatches, raise max_size, or lower what a slot needs"));
  }

  const PlanOptions& options_;
  const std::span<const Pass> passes_;
  const SequenceLists& mini_batches_;
  const Allowance& allowance_;
  // The passes that keep to mini-batches, the leading one first; all if none does. And the others.
  std::vector<const Pass*> within_;
  std::vector<const Pass*> over_all_;
  // Whether there is one mini-batch, the whole manifest, as every pass ignores them.
  bool whole_ = false;
  size_t count_ = 1;
  // Whether the lead has the slots of megatron_slots.h and no others.
  bool as_megatron_;
  FixedSizes fixed_;
  ItemNumbers items_;
  std::vector<PassPlacement> placements_;
  // Of the lead, by mini-batch.
  std::vector<Cost> lead_times_;
  // Whether some slots are not the fastest that were found for the lead, since others could not
  // follow these.
  bool anew_ = false;
};

}  // namespace

absl::StatusOr<std::vector<PassPlacement>> PlaceSlots(
    const Manifest& manifest, const PlanOptions& options, std::span<const Pass> passes,
    const PlannedLengths& planned, Alignments& alignments, const Groups& groups,
    const SequenceLists& mini_batches, const Allowance& allowance) {
  return SlotPlacer(manifest, options, passes, planned, alignments, groups, mini_batches, allowance)
      .Run();
}

}  // namespace batchplan
