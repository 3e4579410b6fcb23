// How much the costliest slots cost at least.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_FLOORS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_FLOORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/balance/item_classes.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

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

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_FLOORS_H_
