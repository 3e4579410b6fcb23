#include "server/planner/packing/orders.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>

#include "absl/numeric/int128.h"

namespace batchplan {
namespace {

// The numbers of the loads by ascending key(load), of equal ones the lower number first.
// `largest` is the largest key.
template <typename Key>
std::vector<uint32_t> AscendingBy(std::span<const uint64_t> loads, uint64_t largest, Key key) {
  const auto position_bits = static_cast<int>(std::bit_width(loads.size()));
  // First without the lowest bits, if a key has no room for them beside the number.
  const int dropped = std::max(0, static_cast<int>(std::bit_width(largest)) + position_bits - 64);
  std::vector<uint64_t> keys(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) {
    keys[i] = key(loads[i]) >> dropped << position_bits | i;
  }
  RadixSort(keys, static_cast<uint32_t>(position_bits));
  const uint64_t position = (uint64_t{1} << position_bits) - 1;
  std::vector<uint32_t> order(loads.size());
  for (size_t i = 0; i < keys.size(); ++i) order[i] = static_cast<uint32_t>(keys[i] & position);
  if (dropped == 0) return order;
  const auto less = [&](uint32_t a, uint32_t b) { return key(loads[a]) < key(loads[b]); };
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && keys[end] >> position_bits == keys[begin] >> position_bits) ++end;
    const std::span<uint32_t> alike = std::span(order).subspan(begin, end - begin);
    if (!std::is_sorted(alike.begin(), alike.end(), less)) {
      std::stable_sort(alike.begin(), alike.end(), less);
    }
  }
  return order;
}

uint64_t Largest(std::span<const uint64_t> loads) {
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

}  // namespace

std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads) {
  const uint64_t largest = Largest(loads);
  return AscendingBy(loads, largest, [largest](uint64_t load) { return largest - load; });
}

std::vector<uint32_t> DescendingLaterFirst(std::span<const uint64_t> loads) {
  std::vector<uint32_t> order =
      AscendingBy(loads, Largest(loads), [](uint64_t load) { return load; });
  std::reverse(order.begin(), order.end());
  return order;
}

namespace {

// Below this a comparison sort is done before the digits are counted.
constexpr size_t kFewKeys = 128;

template <typename Key>
void Sort(std::vector<Key>& keys, uint32_t sorted_bits) {
  if (keys.size() < kFewKeys) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  Key all = 0;
  for (Key key : keys) all |= key;
  const auto end = static_cast<uint32_t>(std::bit_width(all));
  if (end <= sorted_bits) return;
  // Digits of one width, not so wide that there are more digit values than keys.
  const uint32_t widest = std::min(static_cast<uint32_t>(std::bit_width(keys.size())), 11u);
  const uint32_t digits = (end - sorted_bits + widest - 1) / widest;
  const uint32_t width = (end - sorted_bits + digits - 1) / digits;
  const Key mask = (Key{1} << width) - 1;

  // Where the next key of each value goes, for each digit.
  std::vector<uint32_t> next(digits << width);
  for (Key key : keys) {
    key >>= sorted_bits;
    for (uint32_t digit = 0; digit < digits; ++digit, key >>= width) {
      ++next[(digit << width) + (key & mask)];
    }
  }
  std::vector<Key> sorted(keys.size());
  for (uint32_t digit = 0; digit < digits; ++digit) {
    uint32_t* place = &next[digit << width];
    uint32_t begin = 0;
    for (uint32_t value = 0; value <= mask; ++value) {
      const uint32_t count = place[value];
      place[value] = begin;
      begin += count;
    }
    const uint32_t shift = sorted_bits + digit * width;
    for (Key key : keys) sorted[place[key >> shift & mask]++] = key;
    keys.swap(sorted);
  }
}

}  // namespace

void RadixSort(std::vector<uint64_t>& keys, uint32_t sorted_bits) { Sort(keys, sorted_bits); }
void RadixSort(std::vector<uint32_t>& keys, uint32_t sorted_bits) { Sort(keys, sorted_bits); }

namespace {

// A number below `bound`, uniformly (D. Lemire, "Fast random integer generation in an interval",
// 2019). The standard fixes its engines bit for bit but not its distributions.
uint64_t Below(std::mt19937_64& engine, uint64_t bound) {
  absl::uint128 product = absl::uint128(engine()) * bound;
  const uint64_t threshold = (0 - bound) % bound;
  while (absl::Uint128Low64(product) < threshold) product = absl::uint128(engine()) * bound;
  return absl::Uint128High64(product);
}

}  // namespace

std::vector<uint32_t> ShuffledOrder(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 engine(seed);
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[Below(engine, i)]);
  return order;
}

}  // namespace batchplan
