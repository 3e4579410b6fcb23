// How many micro-batches a rank may have.

#ifndef BATCHPLAN_SERVER_PLANNER_COUNT_RULE_H_
#define BATCHPLAN_SERVER_PLANNER_COUNT_RULE_H_

#include <cstdint>

#include "server/planner/options.h"

namespace batchplan {

// The constraint on the micro-batches of one rank in one mini-batch.
struct CountRule {
  uint64_t minimum = 1;
  uint64_t multiple = 1;

  // The least allowed count that is at least `needed`.
  uint64_t RoundUp(uint64_t needed) const;
  // The least number that RoundUp brings to the allowed `count` or beyond.
  uint64_t LeastThatNeeds(uint64_t count) const;
  // The greatest allowed count that is at most `available`; 0: there is none.
  uint64_t RoundDown(uint64_t available) const;
};

// The pass's minimum, and lcm(microbatch_count_multiple, PP if VPP > 1).
CountRule CountRuleOf(const Topology& topology, const PassOptions& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_COUNT_RULE_H_
