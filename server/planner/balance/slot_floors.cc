#include "server/planner/balance/slot_floors.h"

#include <cstddef>

namespace batchplan {
namespace {

// Thresholds K of the first kind of weights, evenly over 0 .. C/2.
constexpr uint64_t kThresholds = 32;
// The second kind, k = 2 .. kParts.
constexpr uint64_t kParts = 6;

// Adds up whole-numbered weights of which a slot holds `most`.
class WeightSum {
 public:
  explicit WeightSum(uint64_t most) : most_(most) {}

  // The slots that the items so far need, if these are more than `slots`; `slots` otherwise. Items
  // and weights are below 2^31 and 2^32, so no sum overflows.
  uint64_t Add(uint64_t weight, uint64_t items, uint64_t slots) {
    sum_ += weight * items;
    return sum_ <= slots * most_ ? slots : sum_ / most_ + (sum_ % most_ != 0);
  }

 private:
  uint64_t most_;
  uint64_t sum_ = 0;
};

uint64_t ThresholdWeight(uint64_t length, uint64_t capacity, uint64_t threshold) {
  if (length > capacity - threshold) return capacity;
  return length < threshold ? 0 : length;
}

// In units of 1 / (k * (k + 1)).
uint64_t PartsWeight(uint64_t length, uint64_t capacity, uint64_t k) {
  const uint64_t parts = length * (k + 1) / capacity;
  return length * (k + 1) % capacity == 0 ? parts * k : parts * (k + 1);
}

}  // namespace

std::vector<SlotFloor> SlotFloors(std::span<const ItemClass> classes, const BinLimits& limits,
                                  uint32_t ranks) {
  const uint64_t capacity = limits.capacity;
  std::vector<uint64_t> thresholds;
  for (uint64_t i = 0; i <= kThresholds; ++i) {
    const uint64_t threshold = capacity * i / (2 * kThresholds);
    if (thresholds.empty() || thresholds.back() != threshold) thresholds.push_back(threshold);
  }
  std::vector<WeightSum> by_threshold(thresholds.size(), WeightSum(capacity * ranks));
  std::vector<WeightSum> by_parts;
  for (uint64_t k = 2; k <= kParts; ++k) by_parts.emplace_back(k * (k + 1) * ranks);
  WeightSum by_sequences(uint64_t{limits.max_sequences} * ranks);

  std::vector<SlotFloor> floors;
  uint64_t slots = 0;
  for (const ItemClass& c : classes) {
    uint64_t needed = slots;
    for (size_t i = 0; i < thresholds.size(); ++i) {
      const uint64_t weight = ThresholdWeight(c.length, capacity, thresholds[i]);
      needed = by_threshold[i].Add(weight, c.items, needed);
    }
    for (uint64_t k = 2; k <= kParts; ++k) {
      needed = by_parts[k - 2].Add(PartsWeight(c.length, capacity, k), c.items, needed);
    }
    needed = by_sequences.Add(c.sequences, c.items, needed);
    if (needed > slots) floors.push_back({.cost = c.cost, .slots = needed - slots});
    slots = needed;
  }
  return floors;
}

}  // namespace batchplan
