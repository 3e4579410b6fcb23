// The seeds of random choices, each a stream of its own of the request's seed.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_SEEDS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_SEEDS_H_

#include <cstddef>
#include <cstdint>

namespace batchplan {

// An independent seed for stream number `stream` of `seed`: the finalizer of SplitMix64 (Steele,
// Lea, Flood 2014), which makes unrelated outputs of neighbouring inputs.
constexpr uint64_t MixSeed(uint64_t seed, uint64_t stream) {
  uint64_t z = seed + 0x9e3779b97f4a7c15u * (stream + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// For the order of the manifest.
constexpr uint64_t ManifestSeed(uint64_t request_seed) { return MixSeed(request_seed, 0); }

// For mini-batch k.
constexpr uint64_t MiniBatchSeed(uint64_t request_seed, size_t mini_batch) {
  return MixSeed(request_seed, mini_batch + 1);
}

// For one rank of a mini-batch.
constexpr uint64_t RankSeed(uint64_t mini_batch_seed, uint32_t rank) {
  return MixSeed(mini_batch_seed, rank);
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_SEEDS_H_
