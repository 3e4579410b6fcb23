// Step times of context-parallel groups that differ in size, of groups that don't, and of
// Megatron-LM's scheduler.

#ifndef BATCHPLAN_TESTS_BENCH_DYNAMIC_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_DYNAMIC_STEP_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace batchplan::bench {

// Prints a Markdown table for each synchronization and cost of exchange. It has a row for each
// family of lengths, budget of a rank (the family's or a quarter of it) and pool of ranks. The
// first columns are of `balanced` with dynamic_context at DEFAULT: its step time over the bound of
// cheapest sizes, with each sequence on the size that costs all ranks least; its step time over
// lower_bound_step_time; its slots; and its processor time. The last two are step times over that
// one: of the preset megatron_dynamic_cp, and of `balanced` at DEFAULT on the best of the fixed
// sizes that hold every sequence. Each table ends with geometric means. A micro-batch costs
// `per_microbatch` tokens by itself. `family_name` selects a family; empty: all. Returns whether
// there is such a family.
bool PrintDynamicStepTimes(const std::vector<uint32_t>& pools, double per_microbatch,
                           uint64_t seeds, const std::string& family_name);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_DYNAMIC_STEP_TIMES_H_
