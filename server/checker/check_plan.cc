#include "server/checker/check_plan.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checker/check_costs.h"
#include "server/checker/check_loads.h"
#include "server/checker/check_metrics.h"
#include "server/checker/check_rows.h"
#include "server/checker/check_selection.h"
#include "server/checker/check_sequences.h"
#include "server/checker/check_shape.h"
#include "server/checker/check_sharing.h"
#include "server/checker/pass_under_check.h"
#include "server/checker/request_demands.h"
#include "server/checker/request_loads.h"
#include "server/checker/shared_paths.h"
#include "server/checker/violation.h"

namespace batchplan {
namespace checker {
namespace {

// The arrays of a pass after reading, kept to compare later passes with the first.
struct ReadPass {
  std::vector<Microbatch> microbatches;
  Placement placement;
};

absl::StatusOr<ReadPass> CheckPass(const PassUnderCheck& pass) {
  absl::StatusOr<std::vector<Microbatch>> microbatches = CheckShape(pass);
  if (!microbatches.ok()) return microbatches.status();
  absl::StatusOr<Placement> placement = CheckSequences(pass, *microbatches);
  if (!placement.ok()) return placement.status();
  if (absl::Status status = CheckSharing(pass, *microbatches); !status.ok()) return status;
  if (absl::Status status = CheckRows(pass, *microbatches); !status.ok()) return status;

  const PlacedPass placed{pass, *microbatches, *placement};
  if (absl::Status status = CheckMiniBatches(placed); !status.ok()) return status;
  if (absl::Status status = CheckGroups(placed); !status.ok()) return status;
  if (absl::Status status = CheckGivenRanks(placed); !status.ok()) return status;
  if (absl::Status status = CheckEqualCounts(placed); !status.ok()) return status;
  if (absl::Status status = CheckLoads(placed); !status.ok()) return status;
  if (absl::Status status = CheckMetrics(pass, *microbatches); !status.ok()) return status;
  return ReadPass{*std::move(microbatches), *std::move(placement)};
}

}  // namespace
}  // namespace checker

namespace {

// Checks a plan of the whole manifest. `paths` is null if no two of its sequences share tokens.
absl::Status CheckWhole(const Manifest& manifest, const PlanOptions& options, const Plan& plan,
                        const checker::RequestLoads& loads, const checker::SharedPaths* paths) {
  using checker::CheckPass;
  using checker::PassUnderCheck;

  absl::StatusOr<checker::RequestDemands> demands = checker::DemandsOf(manifest, options, loads);
  if (!demands.ok()) return demands.status();
  if (plan.passes.size() != options.passes.size()) {
    return checker::Violation("passes has ", plan.passes.size(), " entries, but the request has ",
                              options.passes.size());
  }
  if (absl::Status status = checker::CheckCostModel(options.cost_model, plan.cost_model_used);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = checker::CheckExclusions(*demands, plan); !status.ok()) return status;

  const auto under_check = [&](size_t number) {
    return PassUnderCheck{number,
                          manifest,
                          options,
                          options.passes[number],
                          *demands,
                          demands->passes[number],
                          plan.passes[number],
                          loads,
                          options.passes[number].ignore_shared_prefixes ? nullptr : paths};
  };
  const PassUnderCheck first = under_check(0);
  absl::StatusOr<checker::ReadPass> read_first = CheckPass(first);
  if (!read_first.ok()) return read_first.status();
  // The first pass that respects mini-batches decides which mini-batch a sequence is in.
  size_t split_number = 0;
  checker::ReadPass read_split;
  for (size_t number = 1; number < plan.passes.size(); ++number) {
    const PassUnderCheck later = under_check(number);
    absl::StatusOr<checker::ReadPass> read_later = CheckPass(later);
    if (!read_later.ok()) return read_later.status();
    const checker::PlacedPass placed{later, read_later->microbatches, read_later->placement};
    if (absl::Status status = checker::CheckSameRanks(
            {first, read_first->microbatches, read_first->placement}, placed);
        !status.ok()) {
      return status;
    }
    if (!options.passes[0].ignore_mini_batches || options.passes[number].ignore_mini_batches) {
      continue;
    }
    if (split_number == 0) {
      split_number = number;
      read_split = *std::move(read_later);
      continue;
    }
    const PassUnderCheck split = under_check(split_number);
    if (absl::Status status =
            checker::CheckSameRanks({split, read_split.microbatches, read_split.placement}, placed);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlan(const Manifest& manifest, const PlanOptions& options, const Plan& plan) {
  // All later checks use these for loads and shared tokens.
  absl::StatusOr<checker::RequestLoads> loads = checker::RequestLoads::Create(manifest, options);
  if (!loads.ok()) return loads.status();
  std::optional<checker::SharedPaths> paths;
  if (!manifest.shared_prefixes.empty() || !manifest.shared_with.empty()) {
    absl::StatusOr<checker::SharedPaths> read = checker::SharedPaths::Create(manifest, options);
    if (!read.ok()) return read.status();
    paths = *std::move(read);
  }
  const auto shared = [&] { return paths && paths->SomeShare() ? &*paths : nullptr; };
  absl::Status status;
  if (!options.selection) {
    if (!plan.deferred.empty()) {
      return checker::Violation("deferred has ", plan.deferred.size(),
                                " entries, but selection is not set");
    }
    status = CheckWhole(manifest, options, plan, *loads, shared());
  } else {
    const absl::StatusOr<checker::TakenPart> part =
        checker::CheckSelection(manifest, options, *loads, plan);
    if (!part.ok()) return part.status();
    loads->Take(part->positions);
    if (paths) paths->Take(part->positions);
    status = CheckWhole({.lengths = part->lengths,
                         .group_ids = part->group_ids,
                         .pad_to = manifest.pad_to,
                         .ranks = part->ranks,
                         .kinds = part->kinds},
                        options, part->plan, *loads, shared());
  }
  if (!status.ok()) return status;
  return checker::CheckTakenMetrics(manifest, plan);
}

}  // namespace batchplan
