// The independent plan checker: does this plan keep every promise for this request?
//
//   absl::StatusOr<Plan> plan = MakePlan(manifest, options);
//   if (plan.ok()) CHECK_OK(CheckPlan(manifest, options, *plan));
//
// It shares no code with the planner, only the plain structs that both speak, so that a mistake in
// one is not repeated in the other. It proves, for every pass:
//   1. every sequence of the manifest is in exactly one place, or was dropped by the caller's own
//      policy; the excluded list is exact;
//   2. no micro-batch exceeds its token budget or its number of sequences; if the caller wants
//      overlong sequences alone, a micro-batch with just one such sequence, which is listed, has
//      the length of that sequence;
//   3. every rank has the same number of micro-batches in every mini-batch, as many as the minimum
//      and the multiple ask, none empty unless allowed;
//   4. mini-batch boundaries hold; with max_delay, if the order is not shuffled, nothing is trained
//      later than allowed; groups stay together, equal counts are equal, each sequence is on the
//      rank that the manifest gives it, if any, and later passes leave it there;
//   5. every offset and row width respects the alignment of the topology and the row padding asked;
//   6. with dynamic_context, the groups of every slot have sizes that are allowed, which descend
//      along the ranks and add up to the pool, with alignment and budget of their size, and later
//      passes leave each sequence on the same ranks;
//   7. with a selection, exactly as much is taken as asked, groups whole, nothing that is too old,
//      everything that would be too old at the next step, and nothing that waits is passed too
//      often. All of the above holds for what is taken, as if it were the manifest; errors then
//      name positions by their place among the taken;
//   8. if sequences share prefixes and the pass does not ignore that, sequences that share stand
//      together, and every row lays each of its tokens exactly once, as shared_tokens says, which
//      is empty otherwise; a sequence that is alone shares with nobody;
//   9. no micro-batch, or for a dealt load no rank in a slot, exceeds a limit on a load by more
//      than one part in 10^9, except a listed sequence that is alone because it exceeds the limit
//      by itself. item_ranks deals the items of each slot by the rule, and slots keep kinds apart
//      as asked;
// and that the metrics are those of this plan. It does not judge how good the plan is: neither
// which packer or sharding made it, nor whether the lower bounds are as high as they could be. Nor
// does it recompute the fingerprint.
//
// The plan may come from anywhere: whatever its arrays hold, the check neither crashes nor reads
// out of range, and what it allocates is proportional to the manifest and the plan given.
// Thread-safe: a pure function. Time O(n log n), a fraction of a second for a million sequences.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_PLAN_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_PLAN_H_

#include "absl/status/status.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// OK if `plan` keeps the promises made for `manifest` and `options`. Otherwise Internal with the
// first violation found, naming place, value and limit:
//   "plan check: passes[0].row_widths[17] is 8200, above max_tokens_per_microbatch 8192"
// A plan for a request that nobody could meet is a violation too.
absl::Status CheckPlan(const Manifest& manifest, const PlanOptions& options, const Plan& plan);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_PLAN_H_
