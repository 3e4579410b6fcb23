#include "server/planner/split/exact_sums.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>

namespace batchplan {
namespace {

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

// The number of units of each size, the largest size first.
using Counts = std::map<uint32_t, uint32_t, std::greater<>>;

// The number of units of each size, as few as possible and at most `most`, that add up to `sum`;
// empty if that is impossible.
Counts FewestThatAddUp(const Counts& counts, uint64_t sum, uint32_t most,
                       const Allowance& allowance) {
  // After each size the fewest units for every sum; a row a size, to be traced back.
  std::vector<std::vector<uint32_t>> fewest = {std::vector<uint32_t>(sum + 1, kNever)};
  fewest[0][0] = 0;
  for (const auto& entry : counts) {
    if (allowance.stop_requested()) return {};
    const uint32_t size = entry.first;
    const uint32_t count = entry.second;
    std::vector<uint32_t> next = fewest.back();
    // The fewest of `count` units of one size: a window over sums that differ by its multiples.
    for (uint64_t rest = 0; rest < size && rest <= sum; ++rest) {
      std::vector<uint64_t> window;  // multiples whose entry, less the multiple, ascends
      size_t head = 0;
      const uint64_t multiples = (sum - rest) / size;
      const auto excess = [&](uint64_t k) {
        return static_cast<int64_t>(fewest.back()[rest + k * size]) - static_cast<int64_t>(k);
      };
      for (uint64_t k = 0; k <= multiples; ++k) {
        if (fewest.back()[rest + k * size] != kNever) {
          while (window.size() > head && excess(window.back()) >= excess(k)) window.pop_back();
          window.push_back(k);
        }
        while (window.size() > head && window[head] + count < k) ++head;
        if (window.size() > head) {
          next[rest + k * size] =
              static_cast<uint32_t>(excess(window[head]) + static_cast<int64_t>(k));
        }
      }
    }
    fewest.push_back(std::move(next));
  }
  if (fewest.back()[sum] == kNever || fewest.back()[sum] > most) return {};
  Counts chosen;
  size_t row = fewest.size() - 1;
  for (auto size = counts.rbegin(); size != counts.rend(); ++size, --row) {
    const uint32_t total = fewest[row][sum];
    uint32_t count = 0;
    while (fewest[row - 1][sum] == kNever || fewest[row - 1][sum] + count != total) {
      ++count;
      sum -= size->first;
    }
    if (count > 0) chosen[size->first] = count;
  }
  return chosen;
}

}  // namespace

std::optional<std::vector<uint32_t>> UnitsThatAddUp(std::span<const uint32_t> sizes, uint64_t sum,
                                                    uint32_t max_overtaking,
                                                    const Allowance& allowance) {
  // Takes first units as long as they don't exceed the sum together.
  uint64_t first_sum = 0;
  size_t first = 0;
  while (first < sizes.size() && sizes[first] <= sum - first_sum) first_sum += sizes[first++];
  std::vector<uint32_t> units;
  const auto take_first = [&] {
    for (uint32_t unit = 0; unit < first; ++unit) units.push_back(unit);
  };
  if (first_sum == sum) {
    take_first();
    return units;
  }
  if (first == sizes.size()) return std::nullopt;
  Counts behind;
  for (size_t i = first + 1; i < sizes.size(); ++i) ++behind[sizes[i]];
  const uint64_t largest = *std::ranges::max_element(sizes);
  uint64_t steps = kMostSumSteps;
  while (true) {
    const uint64_t rest = sum - first_sum;
    // With fewer first units there would only be more to make up for.
    if (rest > largest * max_overtaking) return std::nullopt;
    Counts possible;
    for (const auto& [size, count] : behind) {
      const uint64_t most = std::min<uint64_t>({count, max_overtaking, rest / size});
      if (most > 0) possible[size] = static_cast<uint32_t>(most);
    }
    const uint64_t cells = (rest + 1) * (possible.size() + 1);
    if (cells > std::min(steps, kMostSumCells)) return std::nullopt;
    steps -= cells;
    Counts chosen = FewestThatAddUp(possible, rest, max_overtaking, allowance);
    if (!chosen.empty()) {
      take_first();
      for (size_t i = first + 1; i < sizes.size(); ++i) {
        const auto left = chosen.find(sizes[i]);
        if (left == chosen.end() || left->second == 0) continue;
        --left->second;
        units.push_back(static_cast<uint32_t>(i));
      }
      return units;
    }
    if (first == 0 || allowance.stop_requested()) return std::nullopt;
    // One first unit less: the unit that was left out is behind it now.
    ++behind[sizes[first]];
    --first;
    first_sum -= sizes[first];
  }
}

}  // namespace batchplan
