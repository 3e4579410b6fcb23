// Step times of batches whose sequences begin alike: shared, not shared, by whole groups, and as
// trainers plan them.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_STEP_TIMES_H_

#include <cstdint>
#include <string>

namespace batchplan::bench {

// Prints, for each synchronization, a Markdown table with a row for each family and number of
// ranks: of `balanced` the slots and the processor time that planning takes, and its step time over
// the pass's lower bound; then the step times over that of DEFAULT of plans without sharing, of
// whole groups, of each system and of the best of the systems, batch by batch. All step times are
// PrefixJudge's, means are geometric. Then a table of the means over all batches, with their
// ranges, and in how many batches a ratio is below 1; there the presets of trees are too. Ends the
// program if a plan is over the budget, or the planner's own step time is another.
//
// `family_name` is one of PrefixFamilies or the beginning of some; empty: all. Returns whether
// there is such a family.
bool PrintPrefixStepTimes(uint64_t seeds, const std::string& family_name);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_STEP_TIMES_H_
