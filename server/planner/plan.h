// The plan: the planner's answer, in the flat arrays of the wire contract
// (proto/batchplan/v1/plan.proto documents each field for users).

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "server/planner/request/decision.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/options.h"

namespace batchplan {

// How a load is spread.
struct LoadMetrics {
  std::string load;
  double largest = 0;
  double mean = 0;
  double rank_imbalance = 0;
  double separate_time = 0;
};

struct PlanMetrics {
  uint32_t microbatches = 0;
  uint32_t lower_bound_microbatches = 0;
  bool certified_optimal = false;
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  uint64_t naive_tokens = 0;
  double bin_utilization = 0;
  double aligned_bin_utilization = 0;
  double waste_ratio = 0;
  double bin_balance = 0;
  double packing_efficiency = 0;
  double padding_removed = 0;
  double rank_token_imbalance = 0;
  double rank_cost_imbalance = 0;
  double ideal_step_time = 0;
  double lower_bound_step_time = 0;
  double predicted_step_time = 0;
  double step_efficiency = 0;
  double pipeline_bubble = 0;
  double mean_delay = 0;
  double moved_share = 0;
  double mean_length_taken = 0;
  double mean_length_deferred = 0;
  double mean_age = 0;
  uint32_t largest_age = 0;
  uint64_t laid_tokens = 0;
  uint64_t unique_tokens = 0;
  std::vector<LoadMetrics> loads = {};
};

// The rank of each item of a dealt load.
struct LoadRanks {
  std::string load;
  std::vector<uint32_t> ranks;

  friend bool operator==(const LoadRanks&, const LoadRanks&) = default;
};

// Micro-batches stand in the order: for each mini-batch, for each rank, for each slot; with
// dynamic_context for each mini-batch, slot and group.
struct PassPlan {
  std::string name;
  std::vector<uint32_t> sequence_index;
  std::vector<uint32_t> microbatch_offsets;     // into sequence_index, one more than micro-batches
  std::vector<uint32_t> microbatches_per_rank;  // one a mini-batch
  std::vector<uint32_t> row_widths;             // one a micro-batch
  std::vector<uint32_t> sequence_lengths;       // planned, parallel to sequence_index
  uint32_t length_multiple = 1;
  // One a micro-batch, with dynamic_context; else empty.
  std::vector<uint32_t> context_sizes = {};
  PlanMetrics metrics;
  // One a mini-batch, of the first kMostDecisions.
  std::vector<MiniBatchDecision> decisions = {};
  // Parallel to sequence_index: how many first tokens of the sequence are in the row already; empty
  // if nothing may be shared.
  std::vector<uint32_t> shared_tokens = {};
  // One a dealt load. It follows from all the above.
  std::vector<LoadRanks> item_ranks = {};
};

struct Plan {
  std::vector<PassPlan> passes;
  std::vector<ExcludedSequence> excluded;  // ascending by index
  // With a selection, the positions that wait, ascending.
  std::vector<uint32_t> deferred = {};
  // Fingerprint(). For plans that one version of the planner made of one request, fingerprints are
  // equal exactly if the plans are. Requests that differ only in what it does not cover can have
  // one fingerprint.
  std::string fingerprint;
  CostModel cost_model_used;
};

// SHA-256 as 64 hexadecimal digits over little-endian integers: for each pass the arrays
// sequence_index, microbatch_offsets, microbatches_per_rank, row_widths and, where there are any,
// shared_tokens and context_sizes, each as a uint64 count and its uint32 values; then the excluded
// list the same way, three values an entry, and what is deferred, if anything, like the arrays.
// It does not cover the sequences' lengths, length multiples, names, metrics and decisions. Once a
// stop is requested it ends soon with useless digits.
std::string Fingerprint(const Plan& plan, const std::stop_token& stop = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_H_
