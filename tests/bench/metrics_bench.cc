// What counting and timing a call costs, beside the smallest of its work: planning a small batch.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "server/planner/make_plan.h"
#include "server/planner/presets.h"
#include "server/recent/recent_plans.h"
#include "server/telemetry/metrics.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

constexpr size_t kSequences = 256;

void PlanSmallBatch(benchmark::State& state) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(kSequences, /*seed=*/1);
  PlanOptions options;
  options.topology.data_parallel = 8;
  options.effort = Effort::kFast;
  options.passes.push_back(PresetPass("nemo_rl_packing", options.topology).value());
  options.passes[0].max_tokens_per_microbatch = 16384;
  for (auto _ : state) {
    const absl::StatusOr<Plan> plan = MakePlan({.lengths = lengths}, options);
    if (!plan.ok()) return state.SkipWithError(std::string(plan.status().message()).c_str());
  }
}
BENCHMARK(PlanSmallBatch)->Unit(benchmark::kMicrosecond);

// All that a call of PlanBatch records, with so many jobs in turn.
void RecordCall(benchmark::State& state) {
  Metrics metrics("bench");
  RecentPlans recent({});
  std::vector<std::string> jobs;
  for (int64_t i = 0; i < state.range(0); ++i) jobs.push_back("grpo-" + std::to_string(i));
  const PassRecord pass = {.microbatches = 24, .bin_utilization = 0.9};
  size_t call = 0;
  for (auto _ : state) {
    metrics.BeginCall("PlanBatch");
    metrics.RecordQueue(1, kSequences);
    metrics.RecordQueue(0, kSequences);
    metrics.RecordQueueSeconds(1e-5);
    metrics.RecordCacheLookup(false);
    const PlanRecord plan = {.job_id = jobs[call++ % jobs.size()],
                             .preset = "nemo_rl_packing",
                             .sequences = kSequences,
                             .planning_seconds = 2e-4,
                             .passes = {&pass, 1}};
    metrics.RecordPlan(plan, absl::Now());
    recent.Record(plan, call, absl::Now(), [] { return WholePlan{}; });
    metrics.RecordQueue(0, 0);
    metrics.EndCall("PlanBatch", absl::StatusCode::kOk, 3e-4);
  }
}
BENCHMARK(RecordCall)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace batchplan
