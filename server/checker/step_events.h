// The time of a mini-batch, rank by rank: the checker's own model of time.

#ifndef BATCHPLAN_SERVER_CHECKER_STEP_EVENTS_H_
#define BATCHPLAN_SERVER_CHECKER_STEP_EVENTS_H_

#include <cstddef>
#include <span>

#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// A micro-batch on ranks [rank, rank + ranks), and its cost on each.
struct TimedMicrobatch {
  size_t rank = 0;
  size_t ranks = 1;
  size_t slot = 0;
  double cost = 0;
};

struct StepTime {
  double time = 0;
  // On pipelines, how long the busiest stage of the slowest rank works; the least and the most if
  // several ranks are equally slow.
  double least_stage_work = 0;
  double most_stage_work = 0;
};

// The time of one mini-batch of `slots` slots on `ranks` ranks. The micro-batches of a slot may be
// in any order; those of a rank are in the order of its slots.
StepTime StepTimeOf(const PassUnderCheck& pass, std::span<const TimedMicrobatch> microbatches,
                    size_t ranks, size_t slots);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_STEP_EVENTS_H_
