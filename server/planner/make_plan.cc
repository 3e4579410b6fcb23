#include "server/planner/make_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/allowance.h"
#include "server/planner/assign/assign.h"
#include "server/planner/assign/bounds.h"
#include "server/planner/cancellation.h"
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

}  // namespace

absl::StatusOr<Plan> MakePlan(const Manifest& manifest, const PlanOptions& options,
                              const std::stop_token& stop) {
  if (absl::Status status = CheckManifest(manifest, options.mini_batches.groups); !status.ok())
    return status;
  if (absl::Status status = options.Validate(); !status.ok()) return status;

  std::vector<uint32_t> multiples;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const absl::StatusOr<uint32_t> multiple =
        LengthMultiple(options.topology, options.passes[i], absl::StrCat("passes[", i, "]"));
    if (!multiple.ok()) return multiple.status();
    multiples.push_back(*multiple);
  }
  const Allowance allowance(AllowanceOf(options.effort), stop);
  const Groups groups(manifest, options.mini_batches.groups);
  if (absl::Status status = CheckGivenRanks(manifest, options, groups); !status.ok()) return status;
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  absl::StatusOr<PlannedLengths> planned =
      ApplyOverlongPolicy(manifest, options, groups, FindLengthLimit(options, multiples));
  if (!planned.ok()) return planned.status();
  if (absl::Status status = CheckPadTo(manifest, *planned); !status.ok()) return status;
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;

  const absl::StatusOr<SequenceLists> mini_batches =
      SplitIntoMiniBatches(manifest, planned->lengths, groups, options.mini_batches);
  if (!mini_batches.ok()) return mini_batches.status();

  std::map<uint32_t, AlignedLengths> aligned;  // by length multiple
  std::vector<PassInstance> passes;
  for (size_t i = 0; i < options.passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    AlignedLengths& lengths = aligned[multiples[i]];
    if (!lengths) lengths = AlignAll(planned->lengths, multiples[i]);
    absl::StatusOr<PassInstance> pass = PassInstance::Create(
        manifest, options, i, multiples[i], lengths, *planned, groups, mini_batches->size());
    if (!pass.ok()) return pass.status();
    passes.push_back(*std::move(pass));
  }
  PassPlans plans(passes, *planned, *mini_batches, options.synchronization, allowance);
  absl::Status assigned = AssignAll(passes, options.topology, *mini_batches,
                                    options.mini_batches.seed, allowance, plans);
  if (!assigned.ok()) return assigned;

  Plan plan;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    plans[i].metrics =
        Measure(manifest, options.synchronization, passes[i], plans[i], plans.bounds(i), allowance);
    plan.passes.push_back(std::move(plans[i]));
  }
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  plan.excluded = std::move(planned->excluded);
  plan.cost_model_used = options.cost_model;
  plan.fingerprint = Fingerprint(plan, stop);
  if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
  return plan;
}

std::string_view PlannerVersion() { return BATCHPLAN_VERSION; }

}  // namespace batchplan
