// The step time of a plan of sequences with an encoder's items, from the batch and the plan's
// micro-batches: nothing of it is the planner's or the checker's.

#ifndef BATCHPLAN_TESTS_BENCH_LOAD_JUDGE_H_
#define BATCHPLAN_TESTS_BENCH_LOAD_JUDGE_H_

#include <cstdint>
#include <vector>

#include "tests/bench/load_batches.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// In tokens of the language model.
struct LoadTimes {
  // The sum over slots of the slowest encoder and the slowest language model, each of any rank.
  double lockstep = 0;
  // The same if a slot's items are dealt to its ranks.
  double dealt_lockstep = 0;
  // The rank that takes longest for all that it has.
  double accumulated = 0;
  // The same where each slot waits for its dealt items.
  double dealt_accumulated = 0;
  // Where the deal puts each item.
  std::vector<uint32_t> item_ranks;
  // Of each micro-batch, rank by rank.
  std::vector<double> patches;
  // Whether in each slot all ranks have something else than text, or none has; and whether all
  // sequences of each slot are of one kind.
  bool kinds_together = true;
  bool kinds_alike = true;
};

// Ends the program if the plan does not have every sequence exactly once, if ranks differ in their
// micro-batches or if one of these is over the budget.
LoadTimes JudgeLoads(const LoadBatch& batch, const Transformer& model,
                     const testing::RankMicrobatches& plan, uint32_t budget);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_LOAD_JUDGE_H_
