#include "server/planner/partition/descending.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

namespace batchplan {
namespace {

struct Keyed {
  uint64_t key;
  uint32_t position;

  friend bool operator<(const Keyed& a, const Keyed& b) {
    return std::tuple(a.key, a.position) < std::tuple(b.key, b.position);
  }
};

constexpr int kDigitBits = 11;
// Below this, comparisons are faster.
constexpr size_t kFewestForRadix = 2048;

// Least significant digit first; stable, so that equal keys stay by position.
void RadixSort(std::vector<Keyed>& keyed, uint64_t largest) {
  std::vector<Keyed> sorted(keyed.size());
  for (int shift = 0; shift < 64 && largest >> shift != 0; shift += kDigitBits) {
    const auto digit = [shift](const Keyed& k) {
      return (k.key >> shift) & ((size_t{1} << kDigitBits) - 1);
    };
    std::array<uint32_t, size_t{1} << kDigitBits> next = {};
    for (const Keyed& k : keyed) ++next[digit(k)];
    uint32_t begin = 0;
    for (uint32_t& count : next) begin += std::exchange(count, begin);
    for (const Keyed& k : keyed) sorted[next[digit(k)]++] = k;
    keyed.swap(sorted);
  }
}

}  // namespace

std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads) {
  if (loads.empty()) return {};
  const auto [least, largest] = std::minmax_element(loads.begin(), loads.end());
  std::vector<Keyed> keyed(loads.size());
  for (uint32_t i = 0; i < loads.size(); ++i) {
    keyed[i] = {.key = *largest - loads[i], .position = i};
  }
  if (loads.size() < kFewestForRadix) {
    std::sort(keyed.begin(), keyed.end());
  } else {
    RadixSort(keyed, *largest - *least);
  }
  std::vector<uint32_t> order(loads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].position;
  return order;
}

}  // namespace batchplan
