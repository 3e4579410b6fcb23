// What the request alone demands of any plan, worked out before the plan is looked at.

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
  // As in PassDemands, for a group of that size; length_limit is 0 if it holds no sequence.
  uint32_t length_multiple = 1;
  uint32_t length_limit = 0;
  // The row widths of PassOptions.buckets in such a group, ascending.
  std::vector<uint32_t> buckets = {};
};

struct PassDemands {
  // Every aligned length and every row width is a multiple of this. With dynamic_context the
  // multiple of groups of one rank, which divides those of all sizes in `groups`.
  uint32_t length_multiple = 1;
  // The longest sequence that the token budget holds, with dynamic_context in the size that holds
  // the longest. Longer sequences are alone in their micro-batch.
  uint32_t length_limit = 0;
  // The micro-batches of a rank in a mini-batch: at least min_microbatches, a multiple of
  // count_multiple.
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
  // The least of the passes' limits on lengths. Only sequences that run alone have a planned length
  // above it.
  uint32_t length_limit = 0;
  // By manifest position; 0: dropped.
  std::vector<uint32_t> planned_lengths;
  uint64_t planned_sequences = 0;
  // Exactly what the plan has to list, in this order.
  std::vector<ExcludedSequence> excluded;
  bool any_dropped = false;
  // Sequences of a mini-batch before any were dropped, or groups if counts_groups; the last
  // mini-batch has last_size.
  bool counts_groups = false;
  uint64_t mini_batch_size = 0;
  uint64_t last_size = 0;
  uint64_t mini_batches = 1;
  // By manifest position, for passes that respect mini-batches: the manifest, in its order or by
  // length, cut every mini_batch_size sequences or groups. Empty if the order is shuffled, because
  // then any mini-batch may hold any sequence.
  std::vector<uint32_t> mini_batch_of;
  // By manifest position, numbered from 0; empty if groups need not stay together.
  std::vector<uint32_t> group_of;
  // One for each pass of the request.
  std::vector<PassDemands> passes;
};

// Internal if the request admits no plan at all, so that any plan for it is a violation. `loads`
// are those of the manifest.
absl::StatusOr<RequestDemands> DemandsOf(const Manifest& manifest, const PlanOptions& options,
                                         const RequestLoads& loads);

// Whether the plan has to list the sequence as alone, in some pass.
bool IsListedAsAlone(const RequestDemands& demands, uint32_t sequence);

// `length` rounded up to a multiple of `multiple`, which is at least 1.
uint64_t AlignedLength(uint64_t length, uint32_t multiple);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_REQUEST_DEMANDS_H_
