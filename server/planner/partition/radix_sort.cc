#include "server/planner/partition/radix_sort.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace batchplan {
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

}  // namespace batchplan
