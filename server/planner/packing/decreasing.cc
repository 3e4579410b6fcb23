#include "server/planner/packing/decreasing.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "server/planner/partition/radix_sort.h"

namespace batchplan {
namespace {

// Counting sort's table may have this many places for every item, but not more than a core's cache
// holds.
constexpr size_t kPlacesPerItem = 4;
constexpr size_t kMostPlaces = size_t{1} << 17;

DecreasingItems CountingSort(std::span<const uint32_t> lengths, uint32_t longest) {
  // Neighbours of equal length would wait for one another: they count in two tables.
  std::vector<uint32_t> even(size_t{longest} + 1);
  std::vector<uint32_t> odd(size_t{longest} + 1);
  const size_t pairs = lengths.size() / 2 * 2;
  for (size_t i = 0; i < pairs; i += 2) {
    ++even[lengths[i]];
    ++odd[lengths[i + 1]];
  }
  if (pairs < lengths.size()) ++even[lengths[pairs]];

  DecreasingItems sorted{.order = std::vector<uint32_t>(lengths.size()), .lengths = {}};
  std::vector<uint32_t>& end = even;  // of each length's items, which come from the last to first
  uint32_t placed = 0;
  for (size_t length = even.size(); length-- > 0;) {
    const uint32_t count = even[length] + odd[length];
    if (count == 0) continue;
    sorted.lengths.push_back({.length = static_cast<uint32_t>(length), .count = count});
    placed += count;
    end[length] = placed;
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    sorted.order[--end[lengths[i]]] = static_cast<uint32_t>(i);
  }
  return sorted;
}

DecreasingItems SortKeys(std::span<const uint32_t> lengths) {
  std::vector<uint64_t> keys(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) keys[i] = uint64_t{lengths[i]} << 32 | i;
  RadixSort(keys, 32);
  DecreasingItems sorted;
  sorted.order.reserve(keys.size());
  for (size_t i = keys.size(); i-- > 0;) {
    sorted.order.push_back(static_cast<uint32_t>(keys[i]));
    const auto length = static_cast<uint32_t>(keys[i] >> 32);
    if (sorted.lengths.empty() || sorted.lengths.back().length != length) {
      sorted.lengths.push_back({.length = length, .count = 0});
    }
    ++sorted.lengths.back().count;
  }
  return sorted;
}

}  // namespace

std::vector<uint32_t> DecreasingOrder(std::span<const uint32_t> lengths) {
  return SortDecreasing(lengths).order;
}

DecreasingItems SortDecreasing(std::span<const uint32_t> lengths) {
  if (lengths.empty()) return {};
  const uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
  const size_t places = std::min(kPlacesPerItem * lengths.size(), kMostPlaces);
  return longest < places ? CountingSort(lengths, longest) : SortKeys(lengths);
}

}  // namespace batchplan
