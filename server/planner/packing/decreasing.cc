#include "server/planner/packing/decreasing.h"

#include <algorithm>
#include <bit>
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
  sorted.lengths.reserve(std::min(lengths.size(), even.size()));
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

// Sorts keys of a length above a position.
template <typename Key>
DecreasingItems SortKeys(std::span<const uint32_t> lengths) {
  const auto position_bits = static_cast<uint32_t>(std::bit_width(lengths.size() - 1));
  std::vector<Key> keys(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) keys[i] = Key{lengths[i]} << position_bits | i;
  RadixSort(keys, position_bits);

  const Key position = (Key{1} << position_bits) - 1;
  DecreasingItems sorted{.order = std::vector<uint32_t>(keys.size()),
                         .lengths = std::vector<LengthCount>(keys.size())};
  // Without branches, which would be guessed wrong: a length's count is that of the items up to its
  // last one until the end of the one before is taken off.
  size_t distinct = 0;
  auto current = static_cast<uint32_t>(keys.back() >> position_bits);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Key key = keys[keys.size() - 1 - i];
    const auto length = static_cast<uint32_t>(key >> position_bits);
    sorted.order[i] = static_cast<uint32_t>(key & position);
    distinct += length != current ? 1 : 0;
    current = length;
    sorted.lengths[distinct] = {.length = length, .count = static_cast<uint32_t>(i + 1)};
  }
  sorted.lengths.resize(distinct + 1);
  for (size_t i = distinct; i > 0; --i) sorted.lengths[i].count -= sorted.lengths[i - 1].count;
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
  if (longest < places) return CountingSort(lengths, longest);
  const auto bits = static_cast<int>(std::bit_width(longest) + std::bit_width(lengths.size() - 1));
  return bits <= 32 ? SortKeys<uint32_t>(lengths) : SortKeys<uint64_t>(lengths);
}

}  // namespace batchplan
