#include "server/planner/balance/step_time_bound.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <tuple>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/balance/even_parts.h"
#include "server/planner/balance/slot_waste.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/packing/lower_bounds.h"

namespace batchplan {
namespace {

bool Costlier(const ItemClass& a, const ItemClass& b) {
  return std::tuple(b.cost, b.length, b.sequences) < std::tuple(a.cost, a.length, a.sequences);
}

// Classes by a histogram of lengths. Empty if two items of one length differ in cost.
std::vector<ItemClass> ClassesByLength(const PackItems& items, uint32_t longest) {
  std::vector<ItemClass> histogram(size_t{longest} + 1);
  for (size_t i = 0; i < items.size(); ++i) {
    ItemClass& bucket = histogram[items.lengths[i]];
    if (bucket.items == 0) {
      bucket.length = items.lengths[i];
      bucket.cost = items.loads[i];
    } else if (bucket.cost != items.loads[i]) {
      return {};
    }
    ++bucket.items;
  }
  std::vector<ItemClass> classes;
  for (size_t length = histogram.size(); length-- > 0;) {
    if (histogram[length].items > 0) classes.push_back(histogram[length]);
  }
  return classes;
}

// Merges neighbours that are alike.
void MergeEquals(std::vector<ItemClass>& classes) {
  size_t last = 0;
  for (size_t i = 1; i < classes.size(); ++i) {
    if (!Costlier(classes[last], classes[i])) {
      classes[last].items += classes[i].items;
    } else {
      classes[++last] = classes[i];
    }
  }
  if (!classes.empty()) classes.resize(last + 1);
}

}  // namespace

std::vector<ItemClass> ClassesByCost(const PackItems& items) {
  if (items.size() == 0) return {};
  std::vector<ItemClass> classes;
  const uint32_t longest = *std::max_element(items.lengths.begin(), items.lengths.end());
  if (items.counts.empty() && longest / 8 <= items.size()) {
    classes = ClassesByLength(items, longest);
  }
  if (classes.empty()) {
    classes.reserve(items.size());
    // Most often the longest is the costliest too, and lengths are quicker to sort.
    for (const uint32_t i : DecreasingOrder(items.lengths)) {
      classes.push_back({.cost = items.loads[i],
                         .length = items.lengths[i],
                         .sequences = items.count(i),
                         .items = 1});
    }
  }
  if (!std::is_sorted(classes.begin(), classes.end(), Costlier)) {
    std::sort(classes.begin(), classes.end(), Costlier);
  }
  MergeEquals(classes);
  return classes;
}

namespace {

// Thresholds K of the first sort of weights in SlotFloors, evenly spaced over 0 .. C/2.
constexpr uint64_t kThresholds = 32;
// Of the second sort of weights those for k = 2 .. kParts.
constexpr uint64_t kParts = 6;

// Adds up weights, whole numbers, of which a slot holds `most`.
class WeightSum {
 public:
  explicit WeightSum(uint64_t most) : most_(most) {}

  // The slots that the items so far need, or `slots` if that is more. Items and weights are below
  // 2^31 and 2^32, so no sum overflows.
  uint64_t Add(uint64_t weight, uint64_t items, uint64_t slots) {
    sum_ += weight * items;
    return sum_ <= slots * most_ ? slots : CeilDiv(sum_, most_);
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
    // With a threshold of at most `kept` the length counts as it is. With a greater one it counts
    // as the capacity if it is above half of it, else as 0.
    const uint64_t kept = std::min(length, capacity_ - length);
    const size_t first =
        std::upper_bound(thresholds_.begin(), thresholds_.end(), kept) - thresholds_.begin();
    for (size_t i = 0; i < first; ++i) sums_[i] += length * items;
    if (length > capacity_ / 2) {
      for (size_t i = first; i < sums_.size(); ++i) sums_[i] += capacity_ * items;
    }
    const uint64_t sum = *std::max_element(sums_.begin(), sums_.end());
    return sum <= slots * most_ ? slots : CeilDiv(sum, most_);
  }

 private:
  uint64_t capacity_;
  uint64_t most_;
  std::vector<uint64_t> thresholds_;
  std::vector<uint64_t> sums_;
};

// The second sort of weight, in units of 1 / (k * (k + 1)).
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

namespace {

// The time of a single rank.
uint64_t TotalCost(const PackItems& items) {
  uint64_t total = 0;
  for (const uint64_t load : items.loads) total += load;
  return total;
}

uint64_t TotalCost(const std::vector<ItemClass>& classes) {
  uint64_t total = 0;
  for (const ItemClass& c : classes) total += c.cost * c.items;
  return total;
}

uint64_t AccumulatedBound(const std::vector<ItemClass>& classes, uint32_t ranks) {
  uint64_t items = 0;
  for (const ItemClass& c : classes) items += c.items;
  std::vector<uint64_t> descending;
  descending.reserve(items);
  for (const ItemClass& c : classes) descending.insert(descending.end(), c.items, c.cost);
  return LargestSumBound(descending, ranks);
}

}  // namespace

uint64_t AccumulatedBound(const PackItems& items, uint32_t ranks) {
  return ranks == 1 ? TotalCost(items) : AccumulatedBound(ClassesByCost(items), ranks);
}

// Let the slots of a plan be numbered by descending maximum, M_1 >= M_2 >= ..., and T be their sum.
// SlotFloors proves m_s <= M_s. So T is at least the sum of the floors.
//
// Micro-batches below their slot's maximum are wasted time: D * T = total + sum of (M_s - cost(B))
// over the micro-batches B of all slots s, for D ranks. LeastWaste bounds that sum from below by
// what the floors and the token budget force. So T >= ceil((total + waste) / D).
uint64_t LockstepBound(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                       const Allowance& allowance) {
  if (items.size() == 0) return 0;
  if (ranks == 1) return TotalCost(items);
  std::vector<ItemClass> classes = ClassesByCost(items);
  const uint64_t accumulated = AccumulatedBound(classes, ranks);
  const uint64_t total = TotalCost(classes);
  if (total == 0) return 0;
  // Prices are whole numbers of cost a token, rounded up: in units this small nothing is lost.
  const int shift = std::max(0, std::countl_zero(total) - 2);
  for (ItemClass& c : classes) c.cost <<= shift;

  const std::vector<SlotFloor> floors = SlotFloors(classes, limits, ranks);
  absl::uint128 floor_sum = 0;
  for (const SlotFloor& floor : floors) floor_sum += absl::uint128(floor.cost) * floor.slots;
  const absl::uint128 waste = LeastWaste(classes, floors, limits, ranks, allowance);
  const uint64_t scaled = CeilDiv(absl::uint128(total << shift) + waste, ranks);
  const uint64_t best = std::max(scaled, absl::Uint128Low64(floor_sum));
  return std::max(accumulated, CeilDiv(best, uint64_t{1} << shift));
}

namespace {

// The items of one rank.
struct RankItems {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> loads;

  PackItems view() const { return {.lengths = lengths, .counts = counts, .loads = loads}; }
};

std::vector<RankItems> ItemsOfRanks(const PackItems& items, uint32_t ranks,
                                    std::span<const uint32_t> rank_of) {
  std::vector<RankItems> of_ranks(ranks);
  for (uint32_t i = 0; i < items.size(); ++i) {
    RankItems& own = of_ranks[rank_of[i]];
    own.lengths.push_back(items.lengths[i]);
    if (!items.counts.empty()) own.counts.push_back(items.counts[i]);
    own.loads.push_back(items.loads[i]);
  }
  return of_ranks;
}

// For each slot the higher of two floors.
std::vector<SlotFloor> HigherFloors(std::span<const SlotFloor> a, std::span<const SlotFloor> b) {
  std::vector<SlotFloor> higher;
  uint64_t left_of_a = a.empty() ? 0 : a.front().slots;
  uint64_t left_of_b = b.empty() ? 0 : b.front().slots;
  while (!a.empty() || !b.empty()) {
    uint64_t slots = std::min(left_of_a, left_of_b);
    if (a.empty()) slots = left_of_b;
    if (b.empty()) slots = left_of_a;
    const uint64_t cost = std::max(a.empty() ? 0 : a.front().cost, b.empty() ? 0 : b.front().cost);
    if (!higher.empty() && higher.back().cost == cost) {
      higher.back().slots += slots;
    } else {
      higher.push_back({.cost = cost, .slots = slots});
    }
    const auto pass_over = [slots](std::span<const SlotFloor>& floors, uint64_t& left) {
      if (floors.empty() || (left -= slots) > 0) return;
      floors = floors.subspan(1);
      left = floors.empty() ? 0 : floors.front().slots;
    };
    pass_over(a, left_of_a);
    pass_over(b, left_of_b);
  }
  return higher;
}

// The ranks whose waste is looked at: those with the highest sums.
constexpr size_t kRanksLookedAt = 8;

}  // namespace

// Let c_r(1) >= c_r(2) >= ... be the costs of rank r's micro-batches. Each is in a slot of its own,
// so that s slots have a maximum of at least c_r(s), and M_s >= c_r(s) >= m_s, where SlotFloors of
// one rank proves m_s from its items alone. The highest floor over all ranks is a floor for M_s.
//
// Every rank runs one micro-batch in each slot: T = sum over r's items + sum of (M_s - cost(B))
// over the micro-batches B of rank r. LeastWaste bounds the latter sum by those floors, of one
// rank.
uint64_t LockstepBoundOfRanks(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                              std::span<const uint32_t> rank_of, const Allowance& allowance) {
  if (ranks == 1) return TotalCost(items);
  const uint64_t total = TotalCost(items);
  if (total == 0) return 0;
  const int shift = std::max(0, std::countl_zero(total) - 2);
  struct Rank {
    std::vector<ItemClass> classes;
    uint64_t total = 0;  // shifted
    size_t number = 0;
  };
  std::vector<Rank> busy;
  std::vector<SlotFloor> floors;
  for (const RankItems& own : ItemsOfRanks(items, ranks, rank_of)) {
    if (own.lengths.empty()) continue;
    Rank& rank = busy.emplace_back(Rank{.classes = ClassesByCost(own.view()),
                                        .total = TotalCost(own.view()) << shift,
                                        .number = busy.size()});
    for (ItemClass& c : rank.classes) c.cost <<= shift;
    floors = HigherFloors(floors, SlotFloors(rank.classes, limits, 1));
  }
  absl::uint128 best = 0;
  for (const SlotFloor& floor : floors) best += absl::uint128(floor.cost) * floor.slots;
  const size_t looked_at = std::min(busy.size(), kRanksLookedAt);
  std::partial_sort(busy.begin(), busy.begin() + static_cast<std::ptrdiff_t>(looked_at), busy.end(),
                    [](const Rank& a, const Rank& b) {
                      return std::tuple(b.total, a.number) < std::tuple(a.total, b.number);
                    });
  for (const Rank& rank : std::span(busy).first(looked_at)) {
    best = std::max(best, rank.total + LeastWaste(rank.classes, floors, limits, 1, allowance));
  }
  return absl::Uint128Low64((best + (absl::uint128(1) << shift) - 1) >> shift);
}

}  // namespace batchplan
