#include "server/planner/packing/shuffle.h"

#include <numeric>
#include <random>
#include <utility>

#include "absl/numeric/int128.h"

namespace batchplan {
namespace {

// A number below `bound`, uniformly (D. Lemire, "Fast random integer generation in an interval",
// 2019). The standard fixes its engines bit for bit but not its distributions.
uint64_t Below(std::mt19937_64& engine, uint64_t bound) {
  absl::uint128 product = absl::uint128(engine()) * bound;
  const uint64_t threshold = (0 - bound) % bound;
  while (absl::Uint128Low64(product) < threshold) product = absl::uint128(engine()) * bound;
  return absl::Uint128High64(product);
}

}  // namespace

uint64_t MixSeed(uint64_t seed, uint64_t stream) {
  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014): neighbouring inputs, unrelated outputs.
  uint64_t z = seed + 0x9e3779b97f4a7c15u * (stream + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<uint32_t> ShuffledOrder(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 engine(seed);
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[Below(engine, i)]);
  return order;
}

}  // namespace batchplan
