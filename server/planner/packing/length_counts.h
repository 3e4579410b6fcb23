// How many items there are of each length: what bounds and searches need to know of an instance.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_COUNTS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_COUNTS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

struct LengthCount {
  uint32_t length = 0;
  uint32_t count = 0;

  friend bool operator==(const LengthCount&, const LengthCount&) = default;
};

// The distinct lengths, longest first. O(n) where the longest is at most a few times n; else
// O(n log n).
std::vector<LengthCount> CountLengths(std::span<const uint32_t> lengths);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LENGTH_COUNTS_H_
