#include "server/planner/time/pipeline_time.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "server/planner/time/simulator.h"

namespace batchplan {

PipelineTime PipelineTimeOf(const Pipeline& pipeline, Synchronization synchronization,
                            std::span<const double> costs, size_t ranks,
                            const Allowance& allowance) {
  const size_t slots = costs.size() / ranks;
  PipelineSimulator simulator(pipeline, static_cast<uint32_t>(slots),
                              PipelineSimulator::Mode::kTime, allowance);
  const double busiest = pipeline.BusiestShare();
  const auto time_of = [&](std::span<const double> rank) {
    return PipelineTime{.makespan = simulator.Makespan(rank),
                        .work = busiest * std::accumulate(rank.begin(), rank.end(), 0.0)};
  };
  const bool lockstep = synchronization == Synchronization::kLockstep;
  allowance.Spend(simulator.ticks() + simulator.ticks_each() * (lockstep ? 1 : ranks));
  if (lockstep) {
    std::vector<double> most(slots, 0);
    for (size_t m = 0; m < costs.size(); ++m) most[m % slots] = std::max(most[m % slots], costs[m]);
    return time_of(most);
  }
  PipelineTime slowest;
  for (size_t rank = 0; rank < ranks && !allowance.stop_requested(); ++rank) {
    const PipelineTime time = time_of(costs.subspan(rank * slots, slots));
    if (rank == 0 || time.makespan > slowest.makespan) slowest = time;
  }
  return slowest;
}

}  // namespace batchplan
