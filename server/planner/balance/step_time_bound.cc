#include "server/planner/balance/step_time_bound.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/balance/item_classes.h"
#include "server/planner/balance/slot_floors.h"
#include "server/planner/balance/slot_waste.h"
#include "server/planner/partition/part_bound.h"

namespace batchplan {
namespace {

uint64_t CeilDiv(absl::uint128 a, uint64_t b) { return absl::Uint128Low64((a + (b - 1)) / b); }

// What a lone rank takes, which waits for nobody.
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
uint64_t LockstepBound(const PackItems& items, const BinLimits& limits, uint32_t ranks) {
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
  const absl::uint128 waste = LeastWaste(classes, floors, limits, ranks);
  const uint64_t scaled = CeilDiv(absl::uint128(total << shift) + waste, ranks);
  const uint64_t best = std::max(scaled, absl::Uint128Low64(floor_sum));
  return std::max(accumulated, CeilDiv(best, uint64_t{1} << shift));
}

}  // namespace batchplan
