// How many micro-batches a pass may have.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_COUNT_RULE_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_COUNT_RULE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/options.h"

namespace batchplan {

// All passes together have at most one micro-batch for each sequence and pass, and this many more.
// Only empty micro-batches come near the limit.
inline constexpr uint64_t kMaxEmptyMicrobatches = uint64_t{1} << 18;

// The constraint on the micro-batches of one rank in one mini-batch.
struct CountRule {
  uint64_t minimum = 1;
  uint64_t multiple = 1;

  // The least allowed count that is at least `needed`.
  uint64_t RoundUp(uint64_t needed) const;
  // The least `needed` for which RoundUp gives at least `count`, which is an allowed count.
  uint64_t LeastThatNeeds(uint64_t count) const;
  // The greatest allowed count that is at most `available`; 0: there is none.
  uint64_t RoundDown(uint64_t available) const;
};

// The pass's minimum, and lcm(microbatch_count_multiple, the pipeline's group size if VPP > 1).
CountRule CountRuleOf(const Topology& topology, const PipelineOptions& pipeline,
                      const PassOptions& pass);

// The most that a rank's micro-batches can wait for transfers: each passes alone through all stages
// of the pipeline and back. For this many sequences in this many mini-batches, in units of the cost
// model; 0 without a pipeline.
double MostWaiting(const PlanOptions& options, const PassOptions& pass, uint64_t sequences,
                   uint64_t mini_batches);

// InvalidArgument, beginning with `where`, if one micro-batch for each sequence, and `empty` ones,
// are more than kMaxPipelineWorks allow to simulate on the pipeline.
absl::Status CheckPipelineWorks(const Topology& topology, uint64_t sequences, uint64_t empty,
                                absl::string_view where);

// InvalidArgument if these micro-batches, of all passes together, are more than kMaxPipelineWorks
// allow to simulate on the pipeline.
absl::Status CheckTotalPipelineWorks(const Topology& topology, uint64_t microbatches,
                                     size_t passes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_COUNT_RULE_H_
