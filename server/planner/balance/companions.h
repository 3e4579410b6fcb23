// What may lie beside the longest item of a micro-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_COMPANIONS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_COMPANIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/balance/item_classes.h"

namespace batchplan {

// Bounds on the cost of items that share a room of so many tokens, where an item counts as no more
// than a price for each of its tokens: min(cost, price * length). Values are capped by a ceiling,
// above which they make no difference to the caller.
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

  // The most that items of at most `longest` tokens, and `room` in all, count. Let b be the longest
  // of them. If b <= room/2, their tokens cost no more than those of items of that length; if not,
  // the others have room - b tokens, and none of them is longer than that. Lengths are looked at in
  // steps of capacity/2048. O(steps).
  uint64_t Most(uint64_t price, uint32_t room, uint32_t longest) const;

 private:
  // The items that could be b, in one step of lengths.
  struct Step {
    uint32_t shortest;
    uint32_t longest;
    uint64_t costliest;
  };

  uint32_t StepOf(uint32_t length) const { return length / width_; }
  // Tokens at most this, on items that are no longer.
  uint64_t Fill(uint64_t price, uint32_t room, uint32_t longest) const;

  std::span<const ItemClass> by_length_;
  uint64_t ceiling_;
  uint32_t width_;
  std::vector<uint64_t> token_cost_;          // of each class and those before it
  std::vector<uint64_t> token_cost_in_step_;  // of items up to the end of each step
  std::vector<Step> steps_;                   // those that have items, ascending
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_COMPANIONS_H_
