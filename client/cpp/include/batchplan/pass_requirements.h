// What a worker knows of a pass before it sees the plan, and the check of a plan against it.
//
//   absl::StatusOr<PassRequirements> requirements = RequirementsOf(request, /*pass=*/0);
//   absl::Status status = CheckPassPlan(response.passes(0), *requirements);
//
// A plan comes over a network and its numbers become addresses, so nothing of it is trusted. After
// the check every array has its size, every index lies in the manifest, and no sequence stands
// twice. Every micro-batch fits into its row and its row into the token budget, or it holds a
// single longer sequence that the request lets run alone. No sequence shares more tokens than it
// and the one before it have, every dealt item goes to an existing rank, and where context-parallel
// groups differ in size, those of every slot divide the pool. How good the plan is, is not checked;
// the planner's own plan checker knows more.
//
// Pure functions, safe from any thread. Cost: one pass over the plan, and one bit a sequence.

#ifndef BATCHPLAN_CLIENT_CPP_PASS_REQUIREMENTS_H_
#define BATCHPLAN_CLIENT_CPP_PASS_REQUIREMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// One of the sizes that context-parallel groups may have if they differ in size.
struct ContextGroupSize {
  uint32_t ranks = 1;
  // The multiple that lengths are rounded up to, and the most tokens of a row.
  uint32_t length_multiple = 1;
  uint32_t max_tokens = 0;
};

// Context-parallel groups that differ in size (Topology.dynamic_context).
struct ContextPool {
  // All of data_parallel * context_parallel.
  uint32_t ranks = 1;
  // Ascending.
  std::vector<ContextGroupSize> sizes;

  // The limits of groups of `size` ranks; nullptr if there are none of that size.
  const ContextGroupSize* Find(uint32_t size) const;
};

// A load whose items are dealt to the ranks of their slots.
struct DealtLoad {
  std::string name;
  // Items in the whole batch; unset if a worker knows only its own part.
  std::optional<uint32_t> num_items = {};
};

struct PassRequirements {
  // The number of ranks whose micro-batches the plan holds: all, with a pool those of the pool; or
  // 1 for the slice of one rank, which is then number 0.
  uint32_t data_parallel = 1;
  // The ranks of every micro-batch; unused with a pool.
  uint32_t context_parallel = 1;
  // Unset: groups do not differ.
  std::optional<ContextPool> pool = {};
  // The part of the model's time in each stage of the pipeline; they add up to 1.
  std::vector<double> stage_shares = {1};
  // The multiple that every sequence's length is rounded up to; with a pool, on a group of one
  // rank.
  uint32_t length_multiple = 1;
  // Tokens of a row, or of a padded micro-batch; unused with a pool.
  uint32_t max_tokens_per_microbatch = 0;
  // Whether a micro-batch is [n, width] rather than one packed row.
  bool padded = false;
  // Whether a row may lay shared tokens once (PassPlan.shared_tokens). In a joined plan sequences
  // may share more than this worker knows.
  bool may_share = false;
  // In the cost model's order; and the number of ranks that items go to, all ranks even if the plan
  // is a slice.
  std::vector<DealtLoad> dealt = {};
  uint32_t item_ranks = 1;
  // Sequences of the whole manifest, and the length of each; no lengths if a worker knows only its
  // own part of the batch.
  uint32_t num_sequences = 0;
  absl::Span<const uint32_t> lengths;
  // Whether a sequence may be planned shorter than it is; whether one may be absent (dropped, too
  // old, deferred, or in the slice of another rank); and whether one above the budget may be alone
  // in a row of its length.
  bool may_truncate = false;
  bool may_drop = false;
  bool may_run_alone = false;
};

// The requirements of `request.passes(pass)`, with the preset's values for what the request leaves
// unset. `lengths` views the request, which must outlive the result.
//
// InvalidArgument or Unimplemented, naming the field, for a request that no planner accepts;
// InvalidArgument if the request has no such pass.
absl::StatusOr<PassRequirements> RequirementsOf(const v1::PlanBatchRequest& request, int pass);

// Internal, naming field and value, if `plan` is not what was asked for; InvalidArgument if
// `requirements` contradict themselves.
absl::Status CheckPassPlan(const v1::PassPlan& plan, const PassRequirements& requirements);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_PASS_REQUIREMENTS_H_
