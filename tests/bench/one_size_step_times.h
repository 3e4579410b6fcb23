// How groups that may differ in size do where they need not: beside ranks.

#ifndef BATCHPLAN_TESTS_BENCH_ONE_SIZE_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_ONE_SIZE_STEP_TIMES_H_

#include <cstdint>
#include <span>
#include <string>

#include "tests/bench/length_family.h"

namespace batchplan::bench {

// Prints two Markdown tables with a row for each family, means over the seeds, of plans in lockstep
// at DEFAULT whose micro-batches cost 1,024 tokens by themselves.
//
// The first gives one problem to both solvers, ranks that each run micro-batches of their own: of
// `balanced` ranks, and of the solver of context groups with groups of one rank alone, the step
// time over LockstepBound with the fixed cost of the fewest micro-batches, processor time and
// slots.
//
// The second plans on a pool of as many ranks: the step time over its lower_bound_step_time of
// ranks; of groups that may differ, where every sequence fits a rank; and of these where the
// longest is 10 % too long for one, for each cost of an exchange.
//
// `family_name` is one of them; empty: all. Returns whether there is such a family.
bool PrintOneSizeStepTimes(std::span<const Family> families, uint64_t seeds,
                           const std::string& family_name);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_ONE_SIZE_STEP_TIMES_H_
