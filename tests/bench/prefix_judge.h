// The step time of a plan of sequences that begin alike, token by token: nothing of it is the
// planner's or the checker's.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_JUDGE_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_JUDGE_H_

#include <cstdint>
#include <vector>

#include "tests/bench/prefix_batches.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// By the default cost model, in units of 1/24576 of a token, in which it is whole-numbered.
struct StepTimes {
  uint64_t lockstep = 0;     // the sum over slots of the costliest micro-batch
  uint64_t accumulated = 0;  // the costliest rank
  uint64_t over_budget = 0;  // micro-batches
};

// Numbers every token of a batch: those that a sequence has in common with an earlier one are that
// one's. Takes four bytes for each token of each sequence.
class PrefixJudge {
 public:
  explicit PrefixJudge(const PrefixBatch& batch);

  // Of a plan whose micro-batches compute a token once that several of their sequences have, or,
  // not `shared`, as often. Ends the program if the plan does not have every sequence exactly once.
  StepTimes Judge(const testing::RankMicrobatches& plan, uint32_t budget, bool shared = true);

 private:
  std::vector<std::vector<uint32_t>> tokens_;  // of each sequence
  // Of each token the last micro-batch that has it, all plans' micro-batches numbered from 1.
  std::vector<uint64_t> last_;
  uint64_t microbatch_ = 0;
};

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_JUDGE_H_
