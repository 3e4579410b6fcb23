// What the balanced solver is given, in the order in which it looks at it.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_PROBLEM_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/packing/bins.h"

namespace batchplan {

// Items by descending cost, then length, of equal ones the higher number first; a position is a
// place in that order. Of single sequences the lengths descend as well.
struct Problem {
  Problem(const PackItems& items, const BinLimits& bin_limits, uint32_t rank_count,
          uint32_t slot_count);

  size_t size() const { return cost.size(); }
  uint32_t bins() const { return ranks * slots; }

  // The first position, at or after which every item costs at most `most_cost` and, where lengths
  // descend, is at most `most_length` long.
  size_t FirstWithin(uint64_t most_cost, uint32_t most_length) const;

  std::vector<uint32_t> item;  // as the caller numbers them
  std::vector<uint32_t> length;
  std::vector<uint32_t> count;
  std::vector<uint64_t> cost;
  bool lengths_descend = true;
  uint64_t total_cost = 0;
  uint64_t total_length = 0;
  BinLimits limits;
  uint32_t ranks;
  uint32_t slots;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_PROBLEM_H_
