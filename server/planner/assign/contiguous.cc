#include "server/planner/assign/contiguous.h"

#include <algorithm>
#include <numeric>

namespace batchplan {
namespace {

// The offsets of greedy runs of at most `limit`, each also leaving one load for every run after it;
// the last run takes the rest.
std::vector<size_t> GreedyRuns(std::span<const uint64_t> loads, size_t runs, uint64_t limit) {
  std::vector<size_t> offsets = {0};
  size_t at = 0;
  for (size_t run = 0; run + 1 < runs; ++run) {
    const size_t last = loads.size() - (runs - run - 1);
    uint64_t sum = loads[at++];
    while (at < last && sum + loads[at] <= limit) sum += loads[at++];
    offsets.push_back(at);
  }
  offsets.push_back(loads.size());
  return offsets;
}

}  // namespace

std::vector<size_t> CutIntoRuns(std::span<const uint64_t> loads, size_t runs) {
  uint64_t low = *std::max_element(loads.begin(), loads.end());
  uint64_t high = std::accumulate(loads.begin(), loads.end(), uint64_t{0});
  while (low < high) {
    const uint64_t limit = low + (high - low) / 2;
    const std::vector<size_t> offsets = GreedyRuns(loads, runs, limit);
    const uint64_t rest = std::accumulate(loads.begin() + static_cast<ptrdiff_t>(offsets[runs - 1]),
                                          loads.end(), uint64_t{0});
    if (rest <= limit) {
      high = limit;
    } else {
      low = limit + 1;
    }
  }
  return GreedyRuns(loads, runs, low);
}

}  // namespace batchplan
