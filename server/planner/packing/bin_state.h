// A bin while a search puts items in and takes them out again. Greedy packers, which only put them
// in, have BinRoom (bins.h).

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BIN_STATE_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BIN_STATE_H_

#include <cstdint>

#include "server/planner/packing/bins.h"

namespace batchplan {

// What one or several items add to a bin; of an exchange, the difference between what comes and
// what leaves.
struct ItemSize {
  int64_t cost = 0;
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t items = 0;

  static ItemSize Of(uint64_t cost, uint32_t tokens, uint32_t sequences) {
    return {
        .cost = static_cast<int64_t>(cost), .tokens = tokens, .sequences = sequences, .items = 1};
  }
  friend ItemSize operator+(const ItemSize& a, const ItemSize& b) {
    return {a.cost + b.cost, a.tokens + b.tokens, a.sequences + b.sequences, a.items + b.items};
  }
  ItemSize operator-() const { return {-cost, -tokens, -sequences, -items}; }
  friend ItemSize operator-(const ItemSize& a, const ItemSize& b) {
    return {a.cost - b.cost, a.tokens - b.tokens, a.sequences - b.sequences, a.items - b.items};
  }
};

// The cost of a bin and the room left under each limit, which is negative for a while in searches
// that overfill bins and cure them.
struct BinState {
  uint64_t cost = 0;
  int64_t room = 0;       // tokens
  int64_t sequences = 0;  // that may still come
  uint32_t items = 0;

  static BinState Empty(uint64_t capacity, uint64_t max_sequences) {
    return {.cost = 0,
            .room = static_cast<int64_t>(capacity),
            .sequences = static_cast<int64_t>(max_sequences)};
  }
  static BinState Empty(const BinLimits& limits) {
    return Empty(limits.capacity, limits.max_sequences);
  }

  // Whether the limits allow the change.
  bool Holds(const ItemSize& change) const {
    return change.tokens <= room && change.sequences <= sequences;
  }
  bool IsOverfull() const { return room < 0 || sequences < 0; }

  void Add(const ItemSize& change) {
    cost += static_cast<uint64_t>(change.cost);
    room -= change.tokens;
    sequences -= change.sequences;
    items += static_cast<uint32_t>(change.items);
  }
  void Remove(const ItemSize& change) {
    cost -= static_cast<uint64_t>(change.cost);
    room += change.tokens;
    sequences += change.sequences;
    items -= static_cast<uint32_t>(change.items);
  }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BIN_STATE_H_
