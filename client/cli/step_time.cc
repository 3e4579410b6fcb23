#include "client/cli/step_time.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace batchplan::cli {

StepTimes PredictStepTimes(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                           Layout layout, uint32_t data_parallel, const v1::CostModel& cost_model) {
  StepTimes times;
  size_t next = 0;
  for (const uint32_t slots : plan.microbatches_per_rank()) {
    std::vector<double> slowest(slots, 0);
    double busiest = 0;
    for (uint32_t rank = 0; rank < data_parallel; ++rank) {
      double sum = 0;
      for (uint32_t slot = 0; slot < slots; ++slot) {
        const double cost = MicrobatchCost(microbatches[next++], plan, layout, cost_model);
        slowest[slot] = std::max(slowest[slot], cost);
        sum += cost;
      }
      busiest = std::max(busiest, sum);
    }
    times.lockstep = std::accumulate(slowest.begin(), slowest.end(), times.lockstep);
    times.accumulated += busiest;
  }
  return times;
}

}  // namespace batchplan::cli
