#include "server/planner/make_plan.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/planner/measure.h"
#include "server/planner/plan.h"
#include "server/planner/plan_selection.h"
#include "server/planner/plan_whole.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/pass_limits.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/request/shared_prefixes.h"
#include "server/planner/split/given_ranks.h"

namespace batchplan {
namespace {

// Far above a 64 MiB message, and low enough that no sum of tokens overflows 64 bits.
constexpr size_t kMaxSequences = std::numeric_limits<int32_t>::max();

absl::Status CheckPlanned(size_t sequences, size_t passes) {
  if (sequences <= kMaxPlannedSequences / passes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("manifest.lengths has ", sequences, " sequences, and passes ", passes,
                   " entries: times each other that is above ", kMaxPlannedSequences,
                   ", the limit of a plan; plan fewer sequences or passes at a time"));
}

absl::Status CheckManifest(const Manifest& manifest, const MiniBatching& mini_batches) {
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
  if (manifest.group_ids.empty() && mini_batches.group_count > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest.group_ids is empty, but mini_batches.group_count is ",
                     mini_batches.group_count, "; give one a sequence, or set mini_batches.size"));
  }
  if (manifest.group_ids.empty() && mini_batches.groups != GroupPolicy::kIgnore) {
    return absl::InvalidArgumentError(
        "manifest.group_ids is empty, but mini_batches.groups asks for groups to stay together");
  }
  if (!manifest.ages.empty() && manifest.ages.size() != manifest.lengths.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.ages has ", manifest.ages.size(), " entries, but manifest.lengths has ",
        manifest.lengths.size(), "; give one a sequence, or none"));
  }
  return absl::OkStatus();
}

// Shared prefixes are for packed rows of ranks only.
absl::Status CheckSharing(const Manifest& manifest, const PlanOptions& options) {
  if (manifest.shared_prefixes.empty()) return absl::OkStatus();
  if (options.topology.dynamic_context) {
    return absl::InvalidArgumentError(
        "manifest.shared_prefixes is set beside topology.dynamic_context, which has no rows of "
        "shared "
        "tokens; leave one of them out");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (pass.layout == Layout::kPacked || pass.ignore_shared_prefixes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("manifest.shared_prefixes is set, but passes[", i,
                     "] has the padded layout, in which nothing is shared; set its "
                     "ignore_shared_prefixes, or packed"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Manifest& manifest, const PlanOptions& options,
                              const std::stop_token& stop) {
  uint64_t ticks = 0;
  return MakeCountedPlan(manifest, options, stop, ticks);
}

absl::StatusOr<Plan> MakeCountedPlan(const Manifest& manifest, const PlanOptions& options,
                                     const std::stop_token& stop, uint64_t& ticks) {
  ticks = 0;
  absl::Status status = CheckManifest(manifest, options.mini_batches);
  status.Update(CheckSharedPrefixes(manifest));
  status.Update(CheckSharing(manifest, options));
  status.Update(CheckLoads(manifest, options));
  if (!status.ok()) return status;
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  absl::Status planned = CheckPlanned(manifest.lengths.size(), options.passes.size());
  if (!planned.ok()) return planned;
  const absl::StatusOr<PassLimits> limits = PassLimitsOf(options);
  if (!limits.ok()) return limits.status();
  absl::Status ranks =
      CheckGivenRanks(manifest, options, Groups(manifest, options.mini_batches.policy()));
  if (!ranks.ok()) return ranks;
  if (stop.stop_requested()) return absl::CancelledError("planning was cancelled");

  // Each effort that is planned has an allowance of its own (efforts.h).
  const Allowance request(0, stop);
  absl::StatusOr<Plan> plan = options.selection ? PlanSelection(manifest, options, *limits, request)
                                                : PlanWhole(manifest, options, *limits, request);
  ticks = request.used();
  if (!plan.ok()) return plan;
  for (PassPlan& pass : plan->passes) MeasureTaken(manifest, plan->deferred, pass);
  plan->fingerprint = Fingerprint(*plan, stop);
  if (stop.stop_requested()) return absl::CancelledError("planning was cancelled");
  return plan;
}

std::string_view PlannerVersion() { return BATCHPLAN_VERSION; }

}  // namespace batchplan
