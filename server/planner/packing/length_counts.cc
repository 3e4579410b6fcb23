#include "server/planner/packing/length_counts.h"

#include <algorithm>
#include <cstddef>

#include "server/planner/packing/decreasing.h"

namespace batchplan {
namespace {

// Beyond so many counters for each item it is quicker to sort.
constexpr size_t kCountersPerItem = 4;

std::vector<LengthCount> ByCounting(std::span<const uint32_t> lengths, uint32_t longest) {
  std::vector<uint32_t> counts(size_t{longest} + 1, 0);
  for (uint32_t length : lengths) ++counts[length];
  std::vector<LengthCount> result;
  for (size_t length = counts.size(); length-- > 0;) {
    if (counts[length] > 0) result.push_back({static_cast<uint32_t>(length), counts[length]});
  }
  return result;
}

}  // namespace

std::vector<LengthCount> CountLengths(std::span<const uint32_t> lengths) {
  if (lengths.empty()) return {};
  const uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
  return longest / kCountersPerItem <= lengths.size() ? ByCounting(lengths, longest)
                                                      : SortDecreasing(lengths).lengths;
}

}  // namespace batchplan
