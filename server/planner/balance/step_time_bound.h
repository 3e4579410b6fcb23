// Lower bounds on the predicted step time of a mini-batch, over all assignments to ranks and
// micro-batches.
//
// Costs are items.loads, with a total below 2^63; lengths are in 1 .. limits.capacity. A
// micro-batch costs at least the sum over its items; row padding comes on top. In the padded layout
// a micro-batch of n sequences has n * width <= capacity: the sum of its lengths is within the
// capacity too, and its cost is higher. So a bound for the packed layout holds for the padded one.
// The fixed cost of a micro-batch is left out; the caller adds it.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_STEP_TIME_BOUND_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_STEP_TIME_BOUND_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// A lower bound on the sum over slots of the maximum over ranks of a micro-batch's cost, over all
// packings into any number of slots of `ranks` micro-batches each, some of which may be empty. At
// least AccumulatedBound. The proof is in the source. O(n log n), without the sort if longer
// sequences always cost more. If the allowance does not afford it, the bound leaves out what the
// token budget wastes (slot_waste.h).
uint64_t LockstepBound(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                       const Allowance& allowance = {});

// LockstepBound if item i is on rank rank_of[i] of `ranks`: over all packings of each rank's items.
// At least the sum of the costliest rank. The proof is in the source. O(n log n). The allowance is
// as for LockstepBound.
uint64_t LockstepBoundOfRanks(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                              std::span<const uint32_t> rank_of, const Allowance& allowance = {});

// A lower bound on the maximum over ranks of the sum of its costs, over all assignments of items to
// ranks (LargestSumBound in even_parts.h). O(n log n), as above.
uint64_t AccumulatedBound(const PackItems& items, uint32_t ranks);

// The parts of the bounds, used by slot_waste.h too. A batch of a million sequences has a few
// thousand classes.

// A class: `items` items of the same length, cost and number of sequences.
struct ItemClass {
  uint64_t cost = 0;  // of one item
  uint32_t length = 0;
  uint32_t sequences = 1;  // in one item
  uint64_t items = 0;

  friend bool operator==(const ItemClass&, const ItemClass&) = default;
};

// The classes of items whose costs are items.loads: the costliest first, of equal costs the longest
// first. O(n + L) for sequences of at most L = O(n) tokens whose cost rises with their length, O(n
// log n) otherwise.
std::vector<ItemClass> ClassesByCost(const PackItems& items);

// A run of slots that each cost at least `cost`.
struct SlotFloor {
  uint64_t cost = 0;
  uint64_t slots = 0;
};

// Lower bounds m_1 >= m_2 >= ... on the maxima M_1 >= M_2 >= ... of a plan's slots, D = `ranks`
// micro-batches in each, as runs of equal ones. `classes` are as from ClassesByCost.
//
// If the N costliest items do not fit into D * (s - 1) micro-batches, one of them is in none of the
// costliest s - 1 slots, and so M_s is at least the cost of the N-th. That they do not fit is shown
// by weights under which no micro-batch weighs more than 1, dual feasible functions (G. S. Lueker,
// 1983): of capacity C,
//  - the share of the capacity, items above C - K counted as 1 and those below K as 0, for some
//    K <= C/2 (Martello and Toth's L2);
//  - 1/k for each multiple of C/(k + 1) that the length exceeds, or the share of the capacity where
//    the length is such a multiple (S. P. Fekete and J. Schepers, 2001);
//  - the share of the sequences that a micro-batch may hold.
//
// O(classes + slots).
std::vector<SlotFloor> SlotFloors(std::span<const ItemClass> classes, const BinLimits& limits,
                                  uint32_t ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_STEP_TIME_BOUND_H_
