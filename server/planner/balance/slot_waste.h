// How much time micro-batches wait for the costliest of their slot at least.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_WASTE_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_WASTE_H_

#include <cstdint>
#include <span>

#include "absl/numeric/int128.h"
#include "server/planner/balance/item_classes.h"
#include "server/planner/balance/slot_floors.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// A lower bound on the sum, over the slots and micro-batches B of any plan, of M_s - cost(B), where
// M_s is the maximum of slot s and at least its floor m_s; `ranks` micro-batches in each slot.
//
// Put a price rho on each token. An item's excess e = max(0, cost - rho * length) is what it costs
// beyond that, 0 for items above C/2. Consider a micro-batch B whose longest item is a.
// Nothing in it is above C/2 but a, if that is. The others have at most C - a tokens, none is
// longer than min(a, C - a), and each costs at most rho a token and its excess. Hence cost(B) <=
// v(a) + e(B), e(B) the excess of all items in B, with
//
//   v(a) = (cost(a) - e(a)) + the most that such others count, at rho a token or less,
//
// of which Companions gives bounds, and so do the sequences that still may join, each as costly as
// the costliest among such items; v = 0 for an empty micro-batch. So the waste of B is
//
//   M_s - cost(B) >= max(0, m_s - v(a)) - e(B).
//
// Summed over all micro-batches that is at least sum of max(0, m_s - v(a)) - E, E the excess of all
// items. An item is the longest of one micro-batch at most, and max(0, m - v) = m - min(m, v),
// where the sum of min(m, v) is largest if the largest v meet the largest m. So every plan wastes
// at least
//
//   W(rho) = sum over p of max(0, m_(p) - v_(p)) - E(rho),
//
// both in descending order, each floor as often as a slot has micro-batches. This holds for every
// rho; the largest W(rho) of some thirty is returned, or 0.
//
// O(classes log classes).
absl::uint128 LeastWaste(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
                         const BinLimits& limits, uint32_t ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_WASTE_H_
