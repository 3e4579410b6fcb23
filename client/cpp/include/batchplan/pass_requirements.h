// What a worker knows of a pass before it sees the plan, and the check of a plan against it.
//
//   absl::StatusOr<PassRequirements> requirements = RequirementsOf(request, /*pass=*/0);
//   absl::Status status = CheckPassPlan(response.passes(0), *requirements);
//
// A plan comes over a network and its numbers become addresses, so nothing of it is taken on trust:
// after the check every array has its size, every index lies in the manifest, no sequence stands
// twice, every micro-batch fits into its row and its row into the token budget, or holds a single
// sequence that is longer, where the request lets it run alone, no sequence shares more than it and
// the one before it have, every item that is dealt goes to a rank that there is, and where
// context-parallel groups differ in size those of every slot divide the pool. How good the plan is,
// is not asked; the plan checker of the planner itself knows more.
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

// One of the sizes that context-parallel groups may have where they differ.
struct ContextGroupSize {
  uint32_t ranks = 1;
  // The multiple that lengths are rounded up to, and the tokens of a row.
  uint32_t length_multiple = 1;
  uint32_t max_tokens = 0;
};

// Context-parallel groups that differ in size (Topology.dynamic_context).
struct ContextPool {
  // All of data_parallel * context_parallel.
  uint32_t ranks = 1;
  // Ascending.
  std::vector<ContextGroupSize> sizes;

  // nullptr if groups may not have so many ranks.
  const ContextGroupSize* Find(uint32_t size) const;
};

// A load whose items are dealt to the ranks of their slots.
struct DealtLoad {
  std::string name;
  // Of the whole batch; unset if a worker knows only its own part.
  std::optional<uint32_t> num_items = {};
};

struct PassRequirements {
  // Ranks whose micro-batches the plan holds: all, with a pool those of the pool, or 1 for the
  // slice of one rank, in which that rank is number 0.
  uint32_t data_parallel = 1;
  // Of every micro-batch; unused with a pool.
  uint32_t context_parallel = 1;
  // Unset: groups do not differ.
  std::optional<ContextPool> pool = {};
  // The part of the model's time that each stage of the pipeline takes; they add up to 1.
  std::vector<double> stage_shares = {1};
  // The multiple that every sequence's length is rounded up to; with a pool, by one rank alone.
  uint32_t length_multiple = 1;
  // Tokens of a row, or of a padded micro-batch; unused with a pool.
  uint32_t max_tokens_per_microbatch = 0;
  // Whether a micro-batch is [n, width] rather than one packed row.
  bool padded = false;
  // Whether a row may lay what sequences share once (PassPlan.shared_tokens). Of a joined plan
  // another worker may know more of what is shared.
  bool may_share = false;
  // In the cost model's order; and the ranks that items go to, all of them also where the plan is
  // the slice of one.
  std::vector<DealtLoad> dealt = {};
  uint32_t item_ranks = 1;
  // Sequences of the whole manifest, and the length of each; no lengths if a worker knows only its
  // own part of the batch.
  uint32_t num_sequences = 0;
  absl::Span<const uint32_t> lengths;
  // Whether a sequence may be planned shorter than it is, whether one may be absent: dropped, too
  // old, put off, or in the slice of another rank; and whether one above the budget may be alone in
  // a row of its length.
  bool may_truncate = false;
  bool may_drop = false;
  bool may_run_alone = false;
};

// The requirements of `request.passes(pass)`, with the preset's values where the request sets none.
// `lengths` views the request, which must outlive the result.
//
// InvalidArgument or Unimplemented, naming the field, for a request that no planner accepts;
// InvalidArgument if the request has no such pass.
absl::StatusOr<PassRequirements> RequirementsOf(const v1::PlanBatchRequest& request, int pass);

// Internal, naming field and value, if `plan` is not what was asked for; InvalidArgument if
// `requirements` contradict themselves.
absl::Status CheckPassPlan(const v1::PassPlan& plan, const PassRequirements& requirements);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_PASS_REQUIREMENTS_H_
