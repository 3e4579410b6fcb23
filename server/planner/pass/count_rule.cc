#include "server/planner/pass/count_rule.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace batchplan {

uint64_t CountRule::RoundUp(uint64_t needed) const {
  const uint64_t count = std::max(needed, minimum);
  return (count + multiple - 1) / multiple * multiple;
}

uint64_t CountRule::LeastThatNeeds(uint64_t count) const {
  return count < minimum + multiple ? 0 : count - multiple + 1;
}

uint64_t CountRule::RoundDown(uint64_t available) const {
  const uint64_t count = available / multiple * multiple;
  return count >= minimum ? count : 0;
}

CountRule CountRuleOf(const Topology& topology, const PipelineOptions& pipeline,
                      const PassOptions& pass) {
  uint64_t group = 1;
  if (topology.virtual_pipeline > 1) {
    group = pipeline.group_size > 0 ? pipeline.group_size : topology.pipeline_parallel;
  }
  return {.minimum = pass.min_microbatches,
          .multiple = std::lcm(uint64_t{pass.microbatch_count_multiple}, group)};
}

double MostWaiting(const PlanOptions& options, const PassOptions& pass, uint64_t sequences,
                   uint64_t mini_batches) {
  const Topology& topology = options.topology;
  if (topology.pipeline_parallel == 1) return 0;
  uint64_t microbatches = sequences;
  if (options.allow_empty_microbatches) {
    const uint64_t least = CountRuleOf(topology, options.pipeline, pass).RoundUp(1);
    microbatches += std::min(kMaxEmptyMicrobatches, least * mini_batches);
  }
  return options.pipeline.transfer * 2 * topology.pipeline_parallel * topology.virtual_pipeline *
         static_cast<double>(microbatches);
}

absl::Status CheckPipelineWorks(const Topology& topology, uint64_t sequences, uint64_t empty,
                                absl::string_view where) {
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  if (topology.pipeline_parallel == 1 || sequences + empty <= kMaxPipelineWorks / stages) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": ", sequences, " sequences", empty > 0 ? " and " : "",
      empty > 0 ? absl::StrCat(empty, " empty micro-batches") : "",
      " times topology.pipeline_parallel ", topology.pipeline_parallel, " and virtual_pipeline ",
      topology.virtual_pipeline, " are more than ", kMaxPipelineWorks,
      ", the limit of what is simulated; plan fewer sequences at a time"));
}

absl::Status CheckTotalPipelineWorks(const Topology& topology, uint64_t microbatches,
                                     size_t passes) {
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  if (microbatches <= kMaxPipelineWorks / stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the plan needs ", microbatches, " micro-batches or more in ", passes,
      " passes: times topology.pipeline_parallel ", topology.pipeline_parallel,
      " and virtual_pipeline ", topology.virtual_pipeline, " that is more than ", kMaxPipelineWorks,
      ", the limit of what is simulated; plan fewer sequences or passes at a time"));
}

}  // namespace batchplan
