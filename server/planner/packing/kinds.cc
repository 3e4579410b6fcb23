#include "server/planner/packing/kinds.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <utility>

#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// The most places of a counting sort's table for every item, and in all, as a core's cache holds.
constexpr size_t kPlacesPerItem = 4;
constexpr size_t kMostPlaces = size_t{1} << 17;

DecreasingItems CountingSort(std::span<const uint32_t> lengths, uint32_t longest) {
  // Two tables, for every other length each: otherwise the second of two equal neighbours would
  // wait until the first is counted.
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
  std::vector<uint32_t>& end = even;  // of each length's items, filled from the last to the first
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

// Sorts keys, each a length with the number of its item in the bits below.
template <typename Key>
DecreasingItems SortKeys(std::span<const uint32_t> lengths) {
  const auto position_bits = static_cast<uint32_t>(std::bit_width(lengths.size() - 1));
  std::vector<Key> keys(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) keys[i] = Key{lengths[i]} << position_bits | i;
  RadixSort(keys, position_bits);

  const Key position = (Key{1} << position_bits) - 1;
  DecreasingItems sorted{.order = std::vector<uint32_t>(keys.size()),
                         .lengths = std::vector<LengthCount>(keys.size())};
  // Without branches, which would be mispredicted. So at first a length's count is that of all
  // items up to its last one; at the end the items before its first one are deducted.
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

namespace {

// With more counters for each item sorting is quicker.
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

Kinds KindsOf(std::span<const uint32_t> lengths, uint32_t capacity) {
  Kinds kinds{.lengths = {}, .demand = {}, .capacity = capacity};
  for (const LengthCount& kind : CountLengths(lengths)) {
    kinds.lengths.push_back(kind.length);
    kinds.demand.push_back(kind.count);
  }
  return kinds;
}

uint64_t TokensIn(const Kinds& kinds, std::span<const uint32_t> demand) {
  uint64_t tokens = 0;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    tokens += uint64_t{demand[kind]} * kinds.lengths[kind];
  }
  return tokens;
}

Bins KindsInBins(const Bins& bins, std::span<const uint32_t> lengths, const Kinds& kinds) {
  Bins bins_of_kinds;
  std::vector<uint32_t> bin_of_kinds;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    bin_of_kinds.clear();
    for (uint32_t item : bins[bin]) {
      const auto kind = std::lower_bound(kinds.lengths.begin(), kinds.lengths.end(), lengths[item],
                                         std::greater<>());
      bin_of_kinds.push_back(static_cast<uint32_t>(kind - kinds.lengths.begin()));
    }
    bins_of_kinds.Add(bin_of_kinds);
  }
  return bins_of_kinds;
}

Bins ItemsInBins(const Bins& bins_of_kinds, std::span<const uint32_t> lengths) {
  const std::vector<uint32_t> order = DecreasingOrder(lengths);
  // For each kind, the first item that no bin has yet.
  std::vector<size_t> next;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || lengths[order[i]] != lengths[order[i - 1]]) next.push_back(i);
  }
  Bins bins;
  std::vector<uint32_t> items;
  for (size_t bin = 0; bin < bins_of_kinds.size(); ++bin) {
    items.clear();
    for (uint32_t kind : bins_of_kinds[bin]) items.push_back(order[next[kind]++]);
    bins.Add(items);
  }
  return bins;
}

}  // namespace batchplan
