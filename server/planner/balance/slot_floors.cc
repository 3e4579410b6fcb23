#include "server/planner/balance/slot_floors.h"

#include <algorithm>
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

// The sums of weights by thresholds, of which a slot holds the capacity for each rank.
class ThresholdSums {
 public:
  ThresholdSums(uint64_t capacity, uint32_t ranks) : capacity_(capacity), most_(capacity * ranks) {
    for (uint64_t i = 0; i <= kThresholds; ++i) {
      const uint64_t threshold = capacity * i / (2 * kThresholds);
      if (thresholds_.empty() || thresholds_.back() != threshold) thresholds_.push_back(threshold);
    }
    sums_.resize(thresholds_.size());
  }

  // As WeightSum::Add, by the best of the thresholds.
  uint64_t Add(uint64_t length, uint64_t items, uint64_t slots) {
    // Thresholds up to there leave the length as it is. Others are above the rest of the capacity,
    // or above the length.
    const uint64_t kept = std::min(length, capacity_ - length);
    const size_t first =
        std::upper_bound(thresholds_.begin(), thresholds_.end(), kept) - thresholds_.begin();
    for (size_t i = 0; i < first; ++i) sums_[i] += length * items;
    if (length > capacity_ / 2) {
      for (size_t i = first; i < sums_.size(); ++i) sums_[i] += capacity_ * items;
    }
    const uint64_t sum = *std::max_element(sums_.begin(), sums_.end());
    return sum <= slots * most_ ? slots : sum / most_ + (sum % most_ != 0);
  }

 private:
  uint64_t capacity_;
  uint64_t most_;
  std::vector<uint64_t> thresholds_;
  std::vector<uint64_t> sums_;
};

// In units of 1 / (k * (k + 1)).
uint64_t PartsWeight(uint64_t length, uint64_t capacity, uint64_t k) {
  if (length * (k + 1) < capacity) return 0;
  const uint64_t parts = length * (k + 1) / capacity;
  return length * (k + 1) % capacity == 0 ? parts * k : parts * (k + 1);
}

}  // namespace

std::vector<SlotFloor> SlotFloors(std::span<const ItemClass> classes, const BinLimits& limits,
                                  uint32_t ranks) {
  const uint64_t capacity = limits.capacity;
  ThresholdSums by_threshold(capacity, ranks);
  std::vector<WeightSum> by_parts;
  for (uint64_t k = 2; k <= kParts; ++k) by_parts.emplace_back(k * (k + 1) * ranks);
  WeightSum by_sequences(uint64_t{limits.max_sequences} * ranks);

  std::vector<SlotFloor> floors;
  uint64_t slots = 0;
  for (const ItemClass& c : classes) {
    uint64_t needed = by_threshold.Add(c.length, c.items, slots);
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
