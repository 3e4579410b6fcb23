#include "batchplan/microbatch_loads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace batchplan {
namespace {

// The sum of the items of `load` that belong to the sequences in `sorted`.
double SumOfItems(const v1::Manifest& manifest, const std::string& load,
                  const std::vector<uint32_t>& sorted) {
  double sum = 0;
  for (const v1::LoadItems& items : manifest.items()) {
    if (items.load() != load) continue;
    for (int i = 0; i < std::min(items.sequences_size(), items.values_size()); ++i) {
      if (std::ranges::binary_search(sorted, items.sequences(i))) sum += items.values(i);
    }
  }
  return sum;
}

}  // namespace

std::vector<double> LoadsOf(const WorkerMicrobatch& microbatch, const v1::Manifest& manifest) {
  std::vector<uint32_t> sorted(microbatch.sequence_index.begin(), microbatch.sequence_index.end());
  std::ranges::sort(sorted);
  std::vector<double> sums;
  sums.reserve(static_cast<size_t>(manifest.loads_size()));
  for (const v1::Load& load : manifest.loads()) {
    double sum = load.values().empty() ? SumOfItems(manifest, load.name(), sorted) : 0;
    for (const uint32_t sequence : sorted) {
      if (sequence < static_cast<uint32_t>(load.values_size())) {
        sum += load.values(static_cast<int>(sequence));
      }
    }
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace batchplan
