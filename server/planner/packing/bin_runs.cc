#include "server/planner/packing/bin_runs.h"

#include <span>
#include <utility>

namespace batchplan {

Bins BinRuns::Build(const std::vector<uint32_t>& order) const {
  uint32_t bins = 0;
  while (runs_[bins].size > 0) bins += runs_[bins].bins;
  std::vector<uint32_t> offsets(size_t{bins} + 1);
  uint32_t end = 0;
  for (uint32_t run = 0; run < bins; run += runs_[run].bins) {
    for (uint32_t bin = run; bin < run + runs_[run].bins; ++bin) {
      offsets[bin] = end;
      end += runs_[run].size;
    }
  }
  offsets[bins] = end;
  std::vector<uint32_t> items(order.size());
  const uint32_t* next = order.data();
  for (const Step& step : std::span(steps_.get(), step_count_)) {
    for (uint32_t bin = step.bin; bin < step.bin + step.bins; ++bin) {
      uint32_t* place = items.data() + offsets[bin] + step.at;
      for (uint32_t i = 0; i < step.each; ++i) place[i] = next[i];
      next += step.each;
    }
  }
  return Bins(std::move(items), std::move(offsets));
}

}  // namespace batchplan
