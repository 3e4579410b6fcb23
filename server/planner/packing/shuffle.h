// Seeded shuffles that are the same on every machine and standard library.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_SHUFFLE_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_SHUFFLE_H_

#include <cstdint>
#include <vector>

namespace batchplan {

// An independent seed for stream number `stream` of `seed`.
uint64_t MixSeed(uint64_t seed, uint64_t stream);

// The numbers 0 .. count - 1 in an order drawn uniformly by `seed` (Fisher-Yates).
std::vector<uint32_t> ShuffledOrder(uint32_t count, uint64_t seed);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_SHUFFLE_H_
