// The step time of a plan of sequences with an encoder's items, computed from the batch and the
// plan's micro-batches without any code of the planner or the checker.

#ifndef BATCHPLAN_TESTS_BENCH_LOAD_JUDGE_H_
#define BATCHPLAN_TESTS_BENCH_LOAD_JUDGE_H_

#include <cstdint>
#include <vector>

#include "tests/bench/load_batches.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// Times in tokens of the language model.
struct LoadTimes {
  // The sum over slots: the slowest encoder of any rank plus the slowest language model of any
  // rank.
  double lockstep = 0;
  // In lockstep, if a slot's items are dealt to its ranks.
  double dealt_lockstep = 0;
  // The total time of the slowest rank.
  double accumulated = 0;
  // Accumulated, if each slot waits for its dealt items.
  double dealt_accumulated = 0;
  // The rank to which each item is dealt.
  std::vector<uint32_t> item_ranks;
  // The patches of each micro-batch, rank by rank.
  std::vector<double> patches;
  // Whether in each slot either all ranks have more than text or none has; and whether each slot
  // has sequences of a single kind.
  bool kinds_together = true;
  bool kinds_alike = true;
};

// Ends the program if the plan does not have every sequence exactly once, if ranks have different
// numbers of micro-batches, or if a micro-batch is over the budget.
LoadTimes JudgeLoads(const LoadBatch& batch, const Transformer& model,
                     const testing::RankMicrobatches& plan, uint32_t budget);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_LOAD_JUDGE_H_
