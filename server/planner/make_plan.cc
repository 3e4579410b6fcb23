#include "server/planner/make_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/allowance.h"
#include "server/planner/assign/assign.h"
#include "server/planner/assign/bounds.h"
#include "server/planner/cancellation.h"
#include "server/planner/context/context_pass.h"
#include "server/planner/context/context_sizes.h"
#include "server/planner/context/measure_slots.h"
#include "server/planner/context/place_slots.h"
#include "server/planner/given_ranks.h"
#include "server/planner/lengths.h"
#include "server/planner/measure.h"
#include "server/planner/mini_batches.h"
#include "server/planner/order.h"
#include "server/planner/pass_instance.h"
#include "server/planner/plan.h"

namespace batchplan {
namespace {

// Far above a 64 MiB message, and low enough that no sum of tokens overflows 64 bits.
constexpr size_t kMaxSequences = std::numeric_limits<int32_t>::max();

absl::Status CheckManifest(const Manifest& manifest, GroupPolicy groups) {
  if (manifest.lengths.empty()) {
    return absl::InvalidArgumentError("manifest.lengths is empty; at least one sequence is needed");
  }
  if (manifest.lengths.size() > kMaxSequences) {
    return absl::InvalidArgumentError(absl::StrCat("manifest.lengths has ", manifest.lengths.size(),
                                                   " sequences; the limit is ", kMaxSequences));
  }
  if (!manifest.group_ids.empty() && manifest.group_ids.size() != manifest.lengths.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.group_ids has ", manifest.group_ids.size(), " entries, but manifest.lengths has ",
        manifest.lengths.size(), "; give one a sequence, or none"));
  }
  if (manifest.group_ids.empty() && groups != GroupPolicy::kIgnore) {
    return absl::InvalidArgumentError(
        "manifest.group_ids is empty, but mini_batches.groups asks for groups to stay together");
  }
  return absl::OkStatus();
}

absl::Status CheckPadTo(const Manifest& manifest, const PlannedLengths& planned) {
  if (manifest.pad_to == 0) return absl::OkStatus();
  const auto longest = std::max_element(planned.lengths.begin(), planned.lengths.end());
  if (*longest <= manifest.pad_to) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("manifest.pad_to is ", manifest.pad_to, ", but sequence ",
                   longest - planned.lengths.begin(), " has ", *longest, " tokens"));
}

// Writes a mini-batch's micro-batches behind what the plan has.
void Append(const PassInstance& pass, const PlannedLengths& planned, const Placement& placement,
            PassPlan& plan) {
  for (size_t m = 0; m < placement.microbatches.size(); ++m) {
    for (SequenceIndex sequence : placement.microbatches[m]) {
      plan.sequence_index.push_back(sequence.value());
      plan.sequence_lengths.push_back(planned.lengths[sequence.value()]);
    }
    plan.microbatch_offsets.push_back(static_cast<uint32_t>(plan.sequence_index.size()));
  }
  const std::vector<uint32_t> rows = pass.RowWidths(placement.widths);
  plan.row_widths.insert(plan.row_widths.end(), rows.begin(), rows.end());
  plan.microbatches_per_rank.push_back(placement.slots);
}

// What comes of the placements: stage 4, and the bounds, mini-batch by mini-batch.
class PassPlans : public PlacementSink {
 public:
  PassPlans(std::span<const PassInstance> passes, const PlannedLengths& planned,
            const SequenceLists& mini_batches, Synchronization synchronization,
            const Allowance& allowance)
      : passes_(passes),
        planned_(planned),
        mini_batches_(mini_batches),
        synchronization_(synchronization),
        allowance_(allowance) {
    Clear();
  }

  void Add(size_t pass, size_t mini_batch, Placement placement) override {
    const PassInstance& instance = passes_[pass];
    const std::span<const SequenceIndex> sequences =
        instance.options().ignore_mini_batches ? mini_batches_.all() : mini_batches_[mini_batch];
    bounds_[pass].push_back(BoundsOf(instance, sequences, synchronization_, placement));
    if (allowance_.stop_requested()) return;
    OrderMicrobatches(instance, instance.order(), placement, allowance_);
    Append(instance, planned_, placement, plans_[pass]);
  }

  void Clear() override {
    plans_.assign(passes_.size(), {});
    bounds_.assign(passes_.size(), {});
    for (size_t i = 0; i < passes_.size(); ++i) {
      plans_[i].name = passes_[i].options().name;
      plans_[i].length_multiple = passes_[i].length_multiple();
      plans_[i].sequence_index.reserve(mini_batches_.all().size());
      plans_[i].sequence_lengths.reserve(mini_batches_.all().size());
      plans_[i].microbatch_offsets = {0};
    }
  }

  PassPlan& operator[](size_t pass) { return plans_[pass]; }
  std::span<const MiniBatchBounds> bounds(size_t pass) const { return bounds_[pass]; }

 private:
  const std::span<const PassInstance> passes_;
  const PlannedLengths& planned_;
  const SequenceLists& mini_batches_;
  const Synchronization synchronization_;
  const Allowance& allowance_;
  std::vector<PassPlan> plans_;
  std::vector<std::vector<MiniBatchBounds>> bounds_;
};

// The limits of each pass: of single groups the length multiple, with dynamic_context what groups
// of each size hold.
struct Limits {
  std::vector<uint32_t> multiples;
  std::vector<std::vector<GroupLimits>> groups;
};

absl::StatusOr<Limits> LimitsOf(const PlanOptions& options) {
  Limits limits;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const std::string where = absl::StrCat("passes[", i, "]");
    if (options.topology.dynamic_context) {
      absl::StatusOr<std::vector<GroupLimits>> groups =
          GroupLimitsOf(options.topology, options.passes[i], where);
      if (!groups.ok()) return groups.status();
      limits.groups.push_back(*std::move(groups));
    } else {
      const absl::StatusOr<uint32_t> multiple =
          LengthMultiple(options.topology, options.passes[i], where);
      if (!multiple.ok()) return multiple.status();
      limits.multiples.push_back(*multiple);
    }
  }
  return limits;
}

// The batch of a request, as the passes are planned.
struct Batch {
  const Manifest& manifest;
  const PlanOptions& options;
  const PlannedLengths& planned;
  const Groups& groups;
  const SequenceLists& mini_batches;
};

// Stages 3 to 5 where every micro-batch takes context_parallel ranks.
absl::StatusOr<std::vector<PassPlan>> PlanRanks(const Batch& batch, const Limits& limits,
                                                const Allowance& allowance) {
  const PlanOptions& options = batch.options;
  std::map<uint32_t, AlignedLengths> aligned;  // by length multiple
  std::vector<PassInstance> passes;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    const uint32_t multiple = limits.multiples[i];
    AlignedLengths& lengths = aligned[multiple];
    if (!lengths) lengths = AlignAll(batch.planned.lengths, multiple);
    absl::StatusOr<PassInstance> pass =
        PassInstance::Create(batch.manifest, options, i, multiple, lengths, batch.planned,
                             batch.groups, batch.mini_batches.size());
    if (!pass.ok()) return pass.status();
    passes.push_back(*std::move(pass));
  }
  PassPlans plans(passes, batch.planned, batch.mini_batches, options.synchronization, allowance);
  absl::Status assigned = AssignAll(passes, options.topology, batch.mini_batches,
                                    options.mini_batches.seed, allowance, plans);
  if (!assigned.ok()) return assigned;
  std::vector<PassPlan> measured;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    plans[i].metrics = Measure(batch.manifest, options.synchronization, passes[i], plans[i],
                               plans.bounds(i), allowance);
    measured.push_back(std::move(plans[i]));
  }
  return measured;
}

PassPlan PassPlanOf(const ContextPass& pass, const PlannedLengths& planned,
                    const PassPlacement& placements) {
  PassPlan plan;
  plan.name = pass.options().name;
  plan.length_multiple = LengthMultipleOfOne(pass.topology(), pass.options());
  plan.microbatch_offsets = {0};
  for (const ContextPlacement& placement : placements) {
    for (const std::vector<PlacedGroup>& slot : placement) {
      for (const PlacedGroup& group : slot) {
        uint32_t width = 0;
        for (const SequenceIndex sequence : group.sequences) {
          plan.sequence_index.push_back(sequence.value());
          plan.sequence_lengths.push_back(planned.lengths[sequence.value()]);
          width += pass.aligned(pass.SizeOf(group.ranks))[sequence.value()];
        }
        plan.microbatch_offsets.push_back(static_cast<uint32_t>(plan.sequence_index.size()));
        plan.row_widths.push_back(width);
        plan.context_sizes.push_back(group.ranks);
      }
    }
    plan.microbatches_per_rank.push_back(static_cast<uint32_t>(placement.size()));
  }
  return plan;
}

// Stages 3 to 5 with dynamic_context, on groups of these sizes.
absl::StatusOr<std::vector<PassPlan>> PlanSlotsWithin(
    const Batch& batch, std::span<const std::vector<GroupLimits>> limits,
    const Allowance& allowance) {
  std::vector<ContextPass> passes;
  for (size_t i = 0; i < batch.options.passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    absl::StatusOr<ContextPass> pass =
        ContextPass::Create(batch.manifest, batch.options, i, limits[i], batch.planned,
                            batch.groups, batch.mini_batches.size(), allowance);
    if (!pass.ok()) return pass.status();
    passes.push_back(*std::move(pass));
  }
  absl::StatusOr<std::vector<PassPlacement>> placed =
      PlaceSlots(batch.manifest, batch.options, passes, batch.planned, batch.groups,
                 batch.mini_batches, allowance);
  if (!placed.ok()) return placed.status();
  std::vector<PassPlan> plans;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    PassPlan& plan = plans.emplace_back(PassPlanOf(passes[i], batch.planned, (*placed)[i]));
    plan.metrics = MeasureSlots(batch.manifest, passes[i], batch.mini_batches, plan, allowance);
  }
  return plans;
}

// The same, first without sizes that exchange for too long to be of use; with them, where they are
// the only ones that leave no group empty, or hold all that belongs together.
absl::StatusOr<std::vector<PassPlan>> PlanSlots(const Batch& batch, const Limits& limits,
                                                const Allowance& allowance) {
  std::vector<std::vector<GroupLimits>> useful;
  useful.reserve(limits.groups.size());
  bool all = true;
  for (size_t i = 0; i < limits.groups.size(); ++i) {
    useful.push_back(WithoutDearSizes(batch.options, i, limits.groups[i], batch.planned));
    all = all && useful.back().size() == limits.groups[i].size();
  }
  absl::StatusOr<std::vector<PassPlan>> plans = PlanSlotsWithin(batch, useful, allowance);
  if (all || !absl::IsInvalidArgument(plans.status())) return plans;
  return PlanSlotsWithin(batch, limits.groups, allowance);
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Manifest& manifest, const PlanOptions& options,
                              const std::stop_token& stop) {
  if (absl::Status status = CheckManifest(manifest, options.mini_batches.groups); !status.ok())
    return status;
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  const bool dynamic = options.topology.dynamic_context.has_value();

  const absl::StatusOr<Limits> limits = LimitsOf(options);
  if (!limits.ok()) return limits.status();
  const Allowance allowance(AllowanceOf(options.effort), stop);
  const Groups groups(manifest, options.mini_batches.groups);
  if (absl::Status status = CheckGivenRanks(manifest, options, groups); !status.ok()) return status;
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  const LengthLimit longest =
      dynamic ? FindContextLimit(limits->groups) : FindLengthLimit(options, limits->multiples);
  absl::StatusOr<PlannedLengths> planned = ApplyOverlongPolicy(manifest, options, groups, longest);
  if (!planned.ok()) return planned.status();
  if (absl::Status status = CheckPadTo(manifest, *planned); !status.ok()) return status;
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;

  const absl::StatusOr<SequenceLists> mini_batches =
      SplitIntoMiniBatches(manifest, planned->lengths, groups, options.mini_batches);
  if (!mini_batches.ok()) return mini_batches.status();

  const Batch batch = {manifest, options, *planned, groups, *mini_batches};
  absl::StatusOr<std::vector<PassPlan>> passes =
      dynamic ? PlanSlots(batch, *limits, allowance) : PlanRanks(batch, *limits, allowance);
  if (!passes.ok()) return passes.status();
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  Plan plan;
  plan.passes = *std::move(passes);
  plan.excluded = std::move(planned->excluded);
  plan.cost_model_used = options.cost_model;
  plan.fingerprint = Fingerprint(plan, stop);
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  return plan;
}

std::string_view PlannerVersion() { return BATCHPLAN_VERSION; }

}  // namespace batchplan
