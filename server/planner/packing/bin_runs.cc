#include "server/planner/packing/bin_runs.h"

#include <utility>

namespace batchplan {

Bins BinRuns::Build(const std::vector<uint32_t>& order) const {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t bin = 0; runs_[bin].size > 0; bin += runs_[bin].bins) {
    for (uint32_t i = 0; i < runs_[bin].bins; ++i) {
      offsets.push_back(offsets.back() + runs_[bin].size);
    }
  }
  std::vector<uint32_t> items(order.size());
  const uint32_t* next = order.data();
  for (const Step& step : steps_) {
    for (uint32_t bin = step.bin; bin < step.bin + step.bins; ++bin) {
      uint32_t* place = items.data() + offsets[bin] + step.at;
      for (uint32_t i = 0; i < step.each; ++i) place[i] = next[i];
      next += step.each;
    }
  }
  return Bins(std::move(items), std::move(offsets));
}

}  // namespace batchplan
