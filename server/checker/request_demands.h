// What the request alone says about any plan for it, worked out before the plan is looked at.

#ifndef BATCHPLAN_SERVER_CHECKER_REQUEST_DEMANDS_H_
#define BATCHPLAN_SERVER_CHECKER_REQUEST_DEMANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/checker/request_loads.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

// A size that groups may have, with dynamic_context.
struct GroupDemands {
  uint32_t ranks = 1;
  // As PassDemands has them, in a group of that size; 0 where it holds no sequence.
  uint32_t length_multiple = 1;
  uint32_t length_limit = 0;
  // The row widths of PassOptions.buckets in such a group, ascending.
  std::vector<uint32_t> buckets = {};
};

struct PassDemands {
  // Every aligned length and every row width is a multiple of this. With dynamic_context that of
  // groups of one rank, which divides those of all sizes in `groups`.
  uint32_t length_multiple = 1;
  // The longest sequence that the token budget holds, with dynamic_context that of the size that
  // holds the longest. Longer ones are alone in their micro-batch.
  uint32_t length_limit = 0;
  // The micro-batches of a rank in a mini-batch: at least the minimum, a multiple of the multiple.
  uint64_t min_microbatches = 1;
  uint64_t count_multiple = 1;
  uint64_t mini_batches = 1;
  // With dynamic_context the sizes of its groups, ascending; else empty.
  std::vector<GroupDemands> groups;
};

struct RequestDemands {
  uint64_t data_parallel = 1;
  // With dynamic_context, the ranks that every slot divides.
  uint64_t pool = 1;
  // The least of the passes' limits on lengths. No planned length is above this but of sequences
  // that are to run alone.
  uint32_t length_limit = 0;
  // By manifest position; 0: dropped.
  std::vector<uint32_t> planned_lengths;
  uint64_t planned_sequences = 0;
  // Exactly what the plan has to list, in this order.
  std::vector<ExcludedSequence> excluded;
  bool any_dropped = false;
  // Sequences of a mini-batch before any were dropped, or groups where these are counted; the last
  // one has last_size of them.
  bool counts_groups = false;
  uint64_t mini_batch_size = 0;
  uint64_t last_size = 0;
  uint64_t mini_batches = 1;
  // By manifest position, for passes that respect mini-batches: the manifest, or what stands in it
  // ordered by length, cut every mini_batch_size sequences, or groups. Empty where the order is
  // shuffled, because then any mini-batch may hold any sequence.
  std::vector<uint32_t> mini_batch_of;
  // By manifest position, numbered from 0; empty where groups need not stay together.
  std::vector<uint32_t> group_of;
  // One for each pass of the request.
  std::vector<PassDemands> passes;
};

// Internal if the request admits no plan at all, so that any plan for it is a violation. `loads`
// are those of the manifest.
absl::StatusOr<RequestDemands> DemandsOf(const Manifest& manifest, const PlanOptions& options,
                                         const RequestLoads& loads);

// Whether the plan has to list a sequence as one that runs alone, in some pass.
bool IsListedAsAlone(const RequestDemands& demands, uint32_t sequence);

// `length` rounded up to a multiple of `multiple`, which is at least 1.
uint64_t AlignedLength(uint64_t length, uint32_t multiple);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_REQUEST_DEMANDS_H_
