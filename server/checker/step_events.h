// What a mini-batch takes, rank by rank: the checker's own model of time.

#ifndef BATCHPLAN_SERVER_CHECKER_STEP_EVENTS_H_
#define BATCHPLAN_SERVER_CHECKER_STEP_EVENTS_H_

#include <cstddef>
#include <span>

#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// A micro-batch on ranks [rank, rank + ranks), which it takes so long.
struct TimedMicrobatch {
  size_t rank = 0;
  size_t ranks = 1;
  size_t slot = 0;
  double cost = 0;
};

struct StepTime {
  double time = 0;
  // Of that, on pipelines, how long the busiest stage of the slowest ranks works; two numbers where
  // several are as slow.
  double least_stage_work = 0;
  double most_stage_work = 0;
};

// Of one mini-batch of `slots` slots on `ranks` ranks, each slot's micro-batches in any order,
// those of a rank in that of its slots.
StepTime StepTimeOf(const PassUnderCheck& pass, std::span<const TimedMicrobatch> microbatches,
                    size_t ranks, size_t slots);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_STEP_EVENTS_H_
