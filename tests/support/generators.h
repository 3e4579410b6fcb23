// Random lengths like those of training batches. A seed gives the same ones on every machine and
// compiler. For whole requests see generated_request.h.
//
// Uses only the bits of std::mt19937_64, which the standard defines. Distributions and mathematical
// functions of the library may differ between implementations.

#ifndef BATCHPLAN_TESTS_SUPPORT_GENERATORS_H_
#define BATCHPLAN_TESTS_SUPPORT_GENERATORS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace batchplan::testing {

// How many random cases a test tries: `count` times the environment's BATCHPLAN_TEST_SCALE, which
// is 1 if unset; at least one.
uint64_t Cases(uint64_t count);

// `seed`, shifted by the environment's BATCHPLAN_TEST_SEED if that is set and not 0. tests/run.sh
// sets a different one for each preset, so that each preset tries its own cases. Shifts are
// multiples of 12, so that whatever a test does for every second, third or fourth seed remains so.
uint64_t Seed(uint64_t seed);

// The seeds of Cases(count) random cases, beginning with Seed(0).
std::vector<uint64_t> Seeds(uint64_t count);

// A stream of random numbers, with the distributions that the generators need.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : bits_(seed) {}

  // In low .. high, including both; low <= high.
  uint64_t Between(uint64_t low, uint64_t high);
  // True with a probability in percent.
  bool Chance(uint32_t percent) { return Between(1, 100) <= percent; }
  // In [0, 1).
  double Uniform();
  // Approximately standard normal: the sum of twelve uniforms, so within 6 of 0.
  double Normal();
  // Lognormal by Normal(), with sigma < 5, as whole numbers in low .. high.
  uint32_t Lognormal(double median, double sigma, uint32_t low, uint32_t high);
  // One of the values.
  template <typename T>
  T OneOf(const std::vector<T>& values) {
    return values[Between(0, values.size() - 1)];
  }

 private:
  std::mt19937_64 bits_;
};

// Answers to school mathematics, as GRPO trains on: lognormal, median 900, sigma 0.9, 16 .. 16384.
std::vector<uint32_t> MathsLengths(size_t count, uint64_t seed);

// Long chains of thought: lognormal, median 4000, sigma 1.1, 64 .. 65536.
std::vector<uint32_t> LongCotLengths(size_t count, uint64_t seed);

// Heavy-tailed web text: the chance of a length is proportional to 1 / length, 8 .. 8192.
std::vector<uint32_t> ZipfLengths(size_t count, uint64_t seed);

// Tool-using agents: 60 % near 2,000 and 40 % near 24,000, 64 .. 32768.
std::vector<uint32_t> AgenticLengths(size_t count, uint64_t seed);

// Uniform in capacity/4 .. capacity/2: two or three share a bin, and greedy packers waste most.
// capacity >= 4.
std::vector<uint32_t> UniformLengths(size_t count, uint64_t seed, uint32_t capacity);

// 3 * triplets lengths in random order, which exactly fill `triplets` bins by threes. Each is above
// capacity/4 and below capacity/2, so that no bin holds four. capacity >= 64.
std::vector<uint32_t> TripletLengths(size_t triplets, uint64_t seed, uint32_t capacity);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_GENERATORS_H_
