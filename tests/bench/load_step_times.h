// Step times of batches with images, whose encoder is a load besides tokens: ignored, planned for,
// dealt to ranks, limited, and with slots of one kind.

#ifndef BATCHPLAN_TESTS_BENCH_LOAD_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_LOAD_STEP_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/planner/request/options.h"
#include "tests/bench/length_family.h"

namespace batchplan::bench {

// What to plan.
struct LoadRuns {
  // Families of text alone.
  std::span<const Family> text;
  std::vector<uint32_t> ranks = {8, 16, 32, 64};
  uint64_t seeds = 3;
  Effort effort = Effort::kDefault;
  // Sequences in each batch; 0: the family's number.
  size_t sequences = 0;
  // The name of a family of LoadFamilies or `text`, or the beginning of names; empty: all.
  std::string family = {};
};

// Prints, for each synchronization, a Markdown table with a row for each of LoadFamilies and number
// of ranks, of plans by `balanced`: "blind" by tokens and the language model's costs alone, "ours"
// with the encoder as a phase. The columns:
//
//   encoder      its part of all work
//   blind        step time over ours
//   ours, dealt  over lower_bound_step_time; dealt: the encoder's items go to a slot's ranks
//   limit        ours within 1.25 of the mean patches of ours' micro-batches, over ours, in the
//                batches whose largest sequence is within that, and how many these are
//   blind over   how many of blind's micro-batches are above that limit, and the patches of the
//                fullest over their mean
//   alike, together   ours with such kinds_per_slot over ours
//   ms, two loads   processor time of blind; and over it of a plan that has the encoder as a phase
//                and patches limited, to the largest sequence if that is more than 1.25 of the mean
//
// All step times are JudgeLoads', means are geometric. Then a table of the means over all batches,
// with their ranges, the batch of the greatest, and in how many a ratio is below 1. Last, for each
// synchronization, batches of text planned by a load that has the default costs, over their plans
// by the default costs.
//
// Ends the program if a plan is not as asked, if the planner's own step time or its deal is another
// or if a plan is below the bound. Returns whether there is such a family.
bool PrintLoadStepTimes(const LoadRuns& runs);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_LOAD_STEP_TIMES_H_
