// Predicted step times on pipelines: of `balanced`, the presets, the code of two systems, and a
// simple heuristic.

#ifndef BATCHPLAN_TESTS_BENCH_PIPELINE_STEP_TIMES_H_
#define BATCHPLAN_TESTS_BENCH_PIPELINE_STEP_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace batchplan::bench {

// Prints a Markdown table for each synchronization, number of stages and number of virtual stages.
// For each family of lengths it shows the step time of every method over that of `balanced`, as
// geometric means over the seeds, and the planning time. `family_name` selects a family; empty:
// all. Returns whether there is such a family.
bool PrintPipelineStepTimes(const std::vector<uint32_t>& stages,
                            const std::vector<uint32_t>& virtual_stages, uint64_t seeds,
                            const std::string& family_name);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PIPELINE_STEP_TIMES_H_
