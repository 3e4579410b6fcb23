// Where the plan's random choices take their seeds from: one stream of the request's seed each.

#ifndef BATCHPLAN_SERVER_PLANNER_SEEDS_H_
#define BATCHPLAN_SERVER_PLANNER_SEEDS_H_

#include <cstddef>
#include <cstdint>

#include "server/planner/packing/orders.h"

namespace batchplan {

// For the order of the manifest.
inline uint64_t ManifestSeed(uint64_t request_seed) { return MixSeed(request_seed, 0); }

// For mini-batch k.
inline uint64_t MiniBatchSeed(uint64_t request_seed, size_t mini_batch) {
  return MixSeed(request_seed, mini_batch + 1);
}

// For one rank of a mini-batch.
inline uint64_t RankSeed(uint64_t mini_batch_seed, uint32_t rank) {
  return MixSeed(mini_batch_seed, rank);
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SEEDS_H_
