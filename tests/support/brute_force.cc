#include "tests/support/brute_force.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace batchplan::testing {
namespace {

struct OpenBin {
  uint64_t tokens = 0;
  std::vector<uint32_t> items;
};

// Places the items in descending order; `choose` picks one of the open bins that hold the item.
template <typename Choose>
NaiveBins PackDecreasing(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t max_items,
                         Choose choose) {
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(lengths[a], a) > std::pair(lengths[b], b);
  });

  std::vector<OpenBin> open;
  for (uint32_t item : order) {
    OpenBin* chosen = nullptr;
    for (OpenBin& bin : open) {
      const bool holds = bin.tokens + lengths[item] <= capacity && bin.items.size() < max_items;
      if (holds && (chosen == nullptr || choose(bin, *chosen))) chosen = &bin;
    }
    if (chosen == nullptr) chosen = &open.emplace_back();
    chosen->tokens += lengths[item];
    chosen->items.push_back(item);
  }
  NaiveBins bins;
  for (OpenBin& bin : open) bins.push_back(std::move(bin.items));
  return bins;
}

}  // namespace

uint32_t BruteForceMinBins(std::span<const uint32_t> lengths, uint32_t capacity,
                           uint32_t max_items) {
  if (lengths.size() > kMaxBruteForceItems) std::abort();
  const uint32_t subsets = uint32_t{1} << lengths.size();
  std::vector<bool> fits(subsets);
  for (uint32_t subset = 0; subset < subsets; ++subset) {
    uint64_t tokens = 0;
    for (size_t item = 0; item < lengths.size(); ++item) {
      if ((subset >> item & 1) != 0) tokens += lengths[item];
    }
    fits[subset] = tokens <= capacity && static_cast<uint32_t>(std::popcount(subset)) <= max_items;
  }
  // Tries all fitting parts that contain the lowest item of the subset as that item's bin.
  std::vector<uint32_t> fewest(subsets, 0);
  for (uint32_t subset = 1; subset < subsets; ++subset) {
    const uint32_t lowest = subset & (~subset + 1);
    const uint32_t others = subset - lowest;
    fewest[subset] = static_cast<uint32_t>(lengths.size());
    for (uint32_t part = others;; part = (part - 1) & others) {
      if (fits[part | lowest]) {
        fewest[subset] = std::min(fewest[subset], 1 + fewest[others - part]);
      }
      if (part == 0) break;
    }
  }
  return fewest[subsets - 1];
}

NaiveBins NaiveFirstFitDecreasing(std::span<const uint32_t> lengths, uint32_t capacity,
                                  uint32_t max_items) {
  return PackDecreasing(lengths, capacity, max_items,
                        [](const OpenBin&, const OpenBin&) { return false; });
}

NaiveBins NaiveBestFitDecreasing(std::span<const uint32_t> lengths, uint32_t capacity,
                                 uint32_t max_items) {
  return PackDecreasing(
      lengths, capacity, max_items,
      [](const OpenBin& bin, const OpenBin& chosen) { return bin.tokens > chosen.tokens; });
}

}  // namespace batchplan::testing
