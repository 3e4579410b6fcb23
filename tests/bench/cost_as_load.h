// Step times of batches of text whose costs are a load, in place of the cost model's formula.

#ifndef BATCHPLAN_TESTS_BENCH_COST_AS_LOAD_H_
#define BATCHPLAN_TESTS_BENCH_COST_AS_LOAD_H_

#include "tests/bench/load_step_times.h"

namespace batchplan::bench {

// Prints a Markdown table with a row for each synchronization, family of `runs.text` and number of
// ranks. It compares plans by `balanced` whose only cost is a load (each sequence's default cost)
// with plans by the default costs: step times by JudgeLoads as a ratio, the latter's processor
// time, and the ratio of processor times. Ends the program if a plan is wrong. Returns whether
// there is such a family.
bool PrintCostsAsLoad(const LoadRuns& runs);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_COST_AS_LOAD_H_
