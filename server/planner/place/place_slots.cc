#include "server/planner/place/place_slots.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/planner/groups/megatron_slots.h"
#include "server/planner/groups/solve_context.h"
#include "server/planner/pass/context_time.h"
#include "server/planner/pass/order.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/place/fixed_sizes.h"
#include "server/planner/place/follow_ranks.h"
#include "server/planner/place/group_placement.h"
#include "server/planner/place/joint_problem.h"
#include "server/planner/place/lead_slots.h"
#include "server/planner/request/cancellation.h"

namespace batchplan {
namespace {

class SlotPlacer {
 public:
  SlotPlacer(const BatchPasses& passes, uint64_t seed, const Allowance& allowance)
      : passes_(passes),
        lead_(passes.lead()),
        allowance_(allowance),
        twins_(TwinsOf(passes.within(), 0)),
        as_megatron_(passes.all().front().options().sharding == Sharding::kMegatronDynamicCp),
        fixed_(passes, seed, allowance),
        items_(lead_.aligned().size()),
        placements_(passes.all().size()),
        lead_times_(passes.mini_batches()) {}

  absl::Status Run(PlacementSink& sink) {
    if (absl::Status status = passes_.CheckFewest(); !status.ok()) return status;
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
    for (size_t i = 0; i < placements_.size(); ++i) {
      for (size_t k = 0; k < placements_[i].size(); ++k) {
        sink.Add(i, k, std::move(placements_[i][k]));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status PlaceAll() {
    for (std::vector<Placement>& of_pass : placements_) of_pass.resize(passes_.mini_batches());
    for (size_t k = 0; k < passes_.mini_batches(); ++k) {
      const Allowance::Part part(allowance_, passes_.mini_batches() - k);
      if (absl::Status status = Place(k); !status.ok()) return status;
    }
    absl::Status over_all = FollowOverAll();
    if (absl::IsInvalidArgument(over_all)) over_all = PlaceAllAnew(over_all);
    if (!over_all.ok()) return over_all;
    PlacedTotal total;
    for (const std::vector<Placement>& of_pass : placements_) {
      for (const Placement& placement : of_pass) total.Add(placement);
    }
    return passes_.CheckTotal(total);
  }

  std::vector<Placement>& PlacementsOf(const Pass& pass) {
    return placements_[passes_.NumberOf(pass)];
  }
  // Places mini-batch k in the passes that keep to mini-batches.
  absl::Status Place(size_t k) {
    const SequenceLists items = lead_.ItemLists(passes_.MiniBatch(k));
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(lead_, items, allowance_);
    if (!problem.ok()) return problem.status();
    std::vector<Placement> found = Solve(k, items, *problem);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (found.empty()) return NothingFound(*problem, k);
    absl::Status placed = PlaceAs(k, std::move(found.front()));
    if (!absl::IsInvalidArgument(placed)) return placed;
    anew_ = true;
    // Slower slots that the other passes can follow, or slots within the limits of all passes.
    absl::Status slower = placed;
    for (size_t i = 1; i < found.size() && absl::IsInvalidArgument(slower); ++i) {
      slower = PlaceAs(k, std::move(found[i]));
    }
    if (!slower.ok() && !absl::IsInvalidArgument(slower)) return slower;
    std::vector<Placement> kept;
    const std::span<const Pass* const> within = passes_.within();
    kept.reserve(within.size());
    for (const Pass* const pass : within) kept.push_back(PlacementsOf(*pass)[k]);
    const Cost time = lead_times_[k];
    absl::Status jointly = PlaceJointly(k, within.subspan(1), placed);
    const bool is_slower = jointly.ok() && lead_times_[k] > time;
    if (slower.ok() && (is_slower || absl::IsInvalidArgument(jointly))) {
      for (size_t i = 0; i < within.size(); ++i) PlacementsOf(*within[i])[k] = std::move(kept[i]);
      lead_times_[k] = time;
      return absl::OkStatus();
    }
    return jointly;
  }

  // Placements of the lead, the fastest first, or the one of Megatron-LM's scheduler.
  std::vector<Placement> Solve(size_t k, const SequenceLists& items,
                               const ContextProblem& problem) {
    if (as_megatron_) {
      const std::optional<ContextSlots> slots = MegatronSlots(problem, allowance_);
      if (allowance_.stop_requested()) return {};
      if (slots) {
        std::vector<Placement> alone = {PlacementOf(lead_, items, *slots)};
        alone.front().method = kMegatronMethod;
        OrderMicrobatches(lead_, lead_.order(), alone.front(), allowance_);
        return alone;
      }
    }
    items_.Number(items);
    return LeadSlots(lead_, problem, items, items_, k, fixed_, allowance_);
  }

  // Places mini-batch k with this placement of the lead, which the other passes follow.
  absl::Status PlaceAs(size_t k, Placement placement) {
    lead_times_[k] = StepTime(lead_, placement, allowance_);
    std::vector<Placement>& of_lead = PlacementsOf(lead_);
    of_lead[k] = std::move(placement);
    const std::span<const Pass* const> within = passes_.within();
    for (size_t i = 1; i < within.size(); ++i) {
      const Pass& pass = *within[i];
      absl::StatusOr<Placement> followed =
          twins_[i] < i ? PlacementsOf(*within[twins_[i]])[k]
                        : Follow(pass, passes_.MiniBatch(k), {&of_lead[k], 1}, pass.WhereOf(k));
      if (!followed.ok()) return followed.status();
      PlacementsOf(pass)[k] = *std::move(followed);
    }
    return absl::OkStatus();
  }

  // Places mini-batch k in slots within the limits of the lead and of `others`, which the other
  // passes follow. `reason` if no such slots are found.
  absl::Status PlaceJointly(size_t k, std::span<const Pass* const> others,
                            const absl::Status& reason) {
    const SequenceLists items = lead_.ItemLists(passes_.MiniBatch(k));
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(lead_, items, allowance_);
    if (!problem.ok()) return problem.status();
    std::optional<ContextProblem> joint = JointProblem(*problem, items, others, allowance_);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (!joint) return reason;
    std::optional<SolvedContext> solved = SolveContext(*joint, {}, allowance_);
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    if (!solved) return reason;
    // The joint problem may have fewer sizes.
    for (std::vector<ContextGroup>& slot : solved->slots) {
      for (ContextGroup& group : slot) {
        group.size = static_cast<uint32_t>(lead_.SizeOf(joint->sizes[group.size].ranks));
      }
    }
    Placement placement = PlacementOf(lead_, items, *solved);
    placement.method = kJointMethod;
    OrderMicrobatches(lead_, lead_.order(), placement, allowance_);
    absl::Status placed = PlaceAs(k, std::move(placement));
    return absl::IsInvalidArgument(placed) ? reason : placed;
  }

  // Places all passes on groups of one size if that makes the lead faster than `limit`; returns
  // whether it does.
  bool TakeFixed(Cost limit) {
    std::optional<FixedSizes::Placements> fixed = fixed_.PlaceAll(limit);
    if (!fixed) return false;
    placements_ = *std::move(fixed);
    return true;
  }

  // A placement of `pass` with each of these sequences on the ranks that it has in the lead's
  // placements. InvalidArgument, beginning with `where`, if there is none; Cancelled if a stop is
  // requested.
  absl::StatusOr<Placement> Follow(const Pass& pass, std::span<const SequenceIndex> sequences,
                                   std::span<const Placement> lead_placements,
                                   absl::string_view where) {
    if (absl::Status status = CheckStop(allowance_); !status.ok()) return status;
    const SequenceLists items = pass.ItemLists(sequences);
    const absl::StatusOr<ContextProblem> problem = ContextProblemOf(pass, items, allowance_);
    if (!problem.ok()) return problem.status();
    items_.Number(items);
    ContextSlots lead_slots;
    for (const Placement& placement : lead_placements) {
      ContextSlots more = items_.SlotsOf(pass, placement);
      std::ranges::move(more, std::back_inserter(lead_slots));
    }
    const std::optional<ContextSlots> slots = FollowRanks(*problem, lead_slots);
    if (!slots) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": max_tokens_per_microbatch ", pass.options().max_tokens_per_microbatch,
          ", max_sequences_per_microbatch ", pass.options().max_sequences_per_microbatch,
          ", min_microbatches ", pass.counts().minimum, " and a multiple of ",
          pass.counts().multiple, " leave no slots in which every sequence is on the ranks that ",
          lead_.where(), " has it on; give the passes more alike limits",
          pass.allow_empty() ? "" : ", or set allow_empty_microbatches"));
    }
    Placement placement = PlacementOf(pass, items, *slots);
    placement.method = kFollowedMethod;
    OrderMicrobatches(pass, pass.order(), placement, allowance_);
    return placement;
  }

  // Places the passes that ignore mini-batches while others keep to them. Errors as by Follow.
  absl::Status FollowOverAll() {
    for (const Pass* const pass : passes_.over_all()) {
      absl::StatusOr<Placement> followed =
          Follow(*pass, passes_.sequences(), PlacementsOf(lead_), pass->where());
      if (!followed.ok()) return followed.status();
      PlacementsOf(*pass) = {*std::move(followed)};
    }
    return absl::OkStatus();
  }

  absl::Status PlaceAllAnew(const absl::Status& reason) {
    anew_ = true;
    std::vector<const Pass*> others(passes_.within().begin() + 1, passes_.within().end());
    others.insert(others.end(), passes_.over_all().begin(), passes_.over_all().end());
    for (size_t k = 0; k < passes_.mini_batches(); ++k) {
      const Allowance::Part part(allowance_, passes_.mini_batches() - k);
      if (absl::Status status = PlaceJointly(k, others, reason); !status.ok()) return status;
    }
    return FollowOverAll();
  }

  absl::Status NothingFound(const ContextProblem& problem, size_t k) const {
    const uint64_t slots = FewestContextSlots(problem);
    const uint32_t largest = problem.sizes.back().ranks;
    const uint64_t groups = lead_.fewest_groups();
    const bool too_few = !problem.allow_empty && problem.items() < slots * groups;
    const absl::string_view items = problem.counts.empty() ? " sequence" : " group";
    return absl::InvalidArgumentError(
        absl::StrCat(lead_.WhereOf(k), ": its ", problem.items(), items,
                     problem.items() == 1 ? " fills" : "s fill", " no slots",
                     too_few ? "" : " that were found", ": at least ", slots,
                     " of them, as min_microbatches ", problem.slots.minimum, ", a multiple of ",
                     problem.slots.multiple, " and max_tokens_per_microbatch ask, and in each ",
                     too_few ? absl::StrCat("at least ", groups, " groups") : "groups", " of ",
                     problem.sizes.front().ranks, " to ", largest, " ranks on all ", problem.pool,
                     " ranks of topology.dynamic_context, none of them empty",
                     too_few ? absl::StrCat(", take ", slots * groups, items, "s") : "",
                     "; set allow_empty_microbatches, raise max_size, or lower what a slot needs"));
  }

  const BatchPasses& passes_;
  const Pass& lead_;
  const Allowance& allowance_;
  const std::vector<size_t> twins_;
  // Whether the lead has the slots of megatron_slots.h and no others.
  bool as_megatron_;
  FixedSizes fixed_;
  ItemNumbers items_;
  // By the pass's number and mini-batch.
  std::vector<std::vector<Placement>> placements_;
  // Of the lead, by mini-batch.
  std::vector<Cost> lead_times_;
  // Whether some slots are not the fastest found for the lead, since other passes could not follow
  // those.
  bool anew_ = false;
};

}  // namespace

absl::Status PlaceSlots(const BatchPasses& passes, uint64_t seed, const Allowance& allowance,
                        PlacementSink& sink) {
  return SlotPlacer(passes, seed, allowance).Run(sink);
}

}  // namespace batchplan
