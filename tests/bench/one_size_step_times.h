// Compares groups that may differ in size with ranks, on batches that do not need them.

#ifndef BATCHPLAN_TESTS_BENCH_ONE_SIZE_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_ONE_SIZE_STEP_TIMES_H_

#include <cstdint>
#include <span>
#include <string>

#include "tests/bench/length_family.h"

namespace batchplan::bench {

// Prints two Markdown tables with a row for each family. They have means over the seeds of plans in
// lockstep at DEFAULT, where a micro-batch costs 1,024 tokens by itself.
//
// The first table gives both solvers one problem, ranks with micro-batches of their own: `balanced`
// has ranks, and the solver of context groups has groups of one rank only. It shows the step time
// over LockstepBound plus the fixed cost of the fewest micro-batches, processor time and slots.
//
// The second table plans on a pool of as many ranks, and shows step times over
// lower_bound_step_time: of ranks; of groups that may differ when every sequence fits a rank; and
// of such groups when the longest is 10 % too long for one rank, for each cost of an exchange.
//
// `family_name` selects a family; empty: all. Returns whether there is such a family.
bool PrintOneSizeStepTimes(std::span<const Family> families, uint64_t seeds,
                           const std::string& family_name);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_ONE_SIZE_STEP_TIMES_H_
