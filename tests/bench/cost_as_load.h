// Step times of batches of text whose costs are a load, in place of the cost model's formula.

#ifndef BATCHPLAN_TESTS_BENCH_COST_AS_LOAD_H_
#define BATCHPLAN_TESTS_BENCH_COST_AS_LOAD_H_

#include "tests/bench/load_step_times.h"

namespace batchplan::bench {

// Prints a Markdown table with a row for each synchronization, family of `runs.text` and number of
// ranks: the step times by JudgeLoads of plans by `balanced` whose only cost is a load, each
// sequence's default cost, over those of plans by the default costs; and of the latter the
// processor time, and that of the former over it. Ends the program if a plan is not as it should
// be. Returns whether there is such a family.
bool PrintCostsAsLoad(const LoadRuns& runs);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_COST_AS_LOAD_H_
