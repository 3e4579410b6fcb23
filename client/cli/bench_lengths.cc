#include "client/cli/bench_lengths.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace batchplan::cli {
namespace {

constexpr double kShortest = 16;
constexpr double kMedian = 900;
constexpr double kSigma = 0.9;

}  // namespace

void FillLengths(uint32_t sequences, uint32_t longest, uint64_t seed, v1::Manifest* manifest) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  manifest->mutable_lengths()->Reserve(static_cast<int>(sequences));
  for (uint32_t i = 0; i < sequences; ++i) {
    const double length = kMedian * std::exp(kSigma * normal(random));
    manifest->add_lengths(
        static_cast<uint32_t>(std::clamp(length, kShortest, static_cast<double>(longest))));
  }
}

}  // namespace batchplan::cli
