// The step time of a plan of sequences that begin alike, computed token by token without any code
// of the planner or the checker.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_JUDGE_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_JUDGE_H_

#include <cstdint>
#include <vector>

#include "tests/bench/prefix_batches.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// In units of 1/24576 of a token, in which the default cost model has whole numbers.
struct StepTimes {
  uint64_t lockstep = 0;     // the sum over slots of the costliest micro-batch
  uint64_t accumulated = 0;  // the costliest rank
  uint64_t over_budget = 0;  // micro-batches
};

// Numbers all tokens of a batch; a token shared with an earlier sequence has that sequence's
// number. Needs four bytes for each token of each sequence.
class PrefixJudge {
 public:
  explicit PrefixJudge(const PrefixBatch& batch);

  // If `shared`, a micro-batch computes a token once for all its sequences that have it. Ends the
  // program if the plan does not have every sequence exactly once.
  StepTimes Judge(const testing::RankMicrobatches& plan, uint32_t budget, bool shared = true);

 private:
  std::vector<std::vector<uint32_t>> tokens_;  // of each sequence
  // For each token the last micro-batch that has it; the micro-batches of all plans are numbered
  // from 1.
  std::vector<uint64_t> last_;
  uint64_t microbatch_ = 0;
};

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_JUDGE_H_
