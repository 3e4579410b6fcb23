#include "server/planner/count_rule.h"

#include <algorithm>
#include <numeric>

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

CountRule CountRuleOf(const Topology& topology, const PassOptions& pass) {
  const uint64_t stages = topology.virtual_pipeline > 1 ? topology.pipeline_parallel : 1;
  return {.minimum = pass.min_microbatches,
          .multiple = std::lcm(uint64_t{pass.microbatch_count_multiple}, stages)};
}

}  // namespace batchplan
