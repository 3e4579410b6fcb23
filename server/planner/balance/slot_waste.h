// A lower bound on the time that micro-batches wait for the costliest of their slot: the part of
// LockstepBound (step_time_bound.h) that the token budget forces.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_WASTE_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_WASTE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Bounds on the cost of items that share a given room beside the longest item of a micro-batch.
// Each token has a price, and an item counts min(cost, price * length). Values are capped by a
// ceiling, above which they make no difference to the caller.
class Companions {
 public:
  // Views the classes, which are ascending by length.
  Companions(std::span<const ItemClass> by_length, uint32_t capacity, uint64_t ceiling);

  // a * b, capped.
  uint64_t Times(uint64_t a, uint64_t b) const {
    const absl::uint128 product = absl::uint128(a) * b;
    return product > ceiling_ ? ceiling_ : absl::Uint128Low64(product);
  }

  // The highest cost of a token, rounded up, among items of at most `longest` tokens.
  uint64_t TokenCost(uint32_t longest) const;

  // The most that items count whose tokens are at most `longest` each and `room` together. Let b be
  // the longest of them. If b <= room/2, their tokens cost no more than those of items of that
  // length; if not, the others have room - b tokens, and none of them is longer than that. Lengths
  // are looked at in steps of capacity/2048. O(steps).
  uint64_t Most(uint64_t price, uint32_t room, uint32_t longest) const;

 private:
  // The items that could be b, in one step of lengths.
  struct Step {
    uint32_t shortest;
    uint32_t longest;
    uint64_t costliest;
  };

  // length / width_ without a division: (length + 1) * inverse_ / 2^64 is below (length + 1) /
  // width_ by less than 2^-32.
  uint32_t StepOf(uint32_t length) const {
    return static_cast<uint32_t>(
        absl::Uint128High64(absl::uint128(inverse_) * (uint64_t{length} + 1)));
  }
  // The most that `room` tokens count if no item is longer than `longest`.
  uint64_t Fill(uint64_t price, uint32_t room, uint32_t longest) const;

  std::span<const ItemClass> by_length_;
  uint64_t ceiling_;
  uint32_t width_;
  uint64_t inverse_;                          // floor((2^64 - 1) / width_)
  std::vector<uint64_t> token_cost_;          // of each class and those before it
  std::vector<uint64_t> token_cost_in_step_;  // of items up to the end of each step
  std::vector<Step> steps_;                   // those that have items, ascending
};

// A lower bound on the sum, over the slots and micro-batches B of any plan, of M_s - cost(B), where
// M_s is the maximum of slot s and at least its floor m_s; `ranks` micro-batches in each slot.
//
// Put a price rho on each token. An item's excess e = max(0, cost - rho * length) is what it costs
// beyond that, 0 for items above C/2. Consider a micro-batch B whose longest item is a.
// No item in it but perhaps a is above C/2. The others have at most C - a tokens, none is longer
// than min(a, C - a), and each costs at most rho a token and its excess. Hence cost(B) <= v(a) +
// e(B), e(B) the excess of all items in B, with
//
//   v(a) = (cost(a) - e(a)) + the most that the others count, at rho a token or less,
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
// O(classes log classes), which is spent; 0 if the allowance does not afford it.
absl::uint128 LeastWaste(std::span<const ItemClass> classes, std::span<const SlotFloor> floors,
                         const BinLimits& limits, uint32_t ranks, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_SLOT_WASTE_H_
