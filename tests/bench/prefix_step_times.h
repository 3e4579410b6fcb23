// Step times of batches whose sequences begin alike: with sharing, without, by whole groups, and as
// trainers plan them.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_STEP_TIMES_H_

#include <cstdint>
#include <string>

namespace batchplan::bench {

// Prints a Markdown table for each synchronization, with a row for each family and number of ranks.
// For `balanced` it shows the slots, the processor time, and the step time over the pass's lower
// bound. Then come step times over that of DEFAULT: of plans without sharing, of whole groups, of
// each system, and of the best system for each batch. All may leave micro-batches empty; whole
// groups have another column without empty ones. All step times are PrefixJudge's; means are
// geometric.
//
// Another table has the means over all batches, with their ranges and the number of batches with a
// ratio below 1; it also has the presets of trees. Ends the program if a plan is over the budget,
// or if the planner's own step time differs.
//
// `family_name` is one of PrefixFamilies or the beginning of some; empty: all. Returns whether
// there is such a family.
bool PrintPrefixStepTimes(uint64_t seeds, const std::string& family_name);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_STEP_TIMES_H_
