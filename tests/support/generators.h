// Random lengths as training batches have them, the same for one seed on every machine and
// compiler. Whole requests: generated_request.h.
//
// Only the bits of std::mt19937_64 are used, which the standard fixes; the library's distributions
// and mathematical functions may differ from one implementation to the next.

#ifndef BATCHPLAN_TESTS_SUPPORT_GENERATORS_H_
#define BATCHPLAN_TESTS_SUPPORT_GENERATORS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace batchplan::testing {

// How many random cases a test tries: `count` times BATCHPLAN_TEST_SCALE of the environment, which
// is 1 where it is not set, and at least one.
uint64_t Cases(uint64_t count);

// Another seed for each BATCHPLAN_TEST_SEED of the environment, `seed` itself where that is 0 or
// not set: tests/run.sh sets another one for each preset, so that each tries cases of its own.
// Multiples of 12 apart, so that what a test does with every second, third or fourth seed it always
// does.
uint64_t Seed(uint64_t seed);

// The seeds of Cases(count) random cases, from Seed(0) on.
std::vector<uint64_t> Seeds(uint64_t count);

// A stream of random numbers with the few shapes that the generators need.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : bits_(seed) {}

  // In low .. high, both included; low <= high.
  uint64_t Between(uint64_t low, uint64_t high);
  // With the given probability in percent.
  bool Chance(uint32_t percent) { return Between(1, 100) <= percent; }
  // In [0, 1).
  double Uniform();
  // Approximately standard normal: the sum of twelve uniforms, so within 6 of 0.
  double Normal();
  // Lognormal but for Normal(), sigma < 5, in whole numbers in low .. high.
  uint32_t Lognormal(double median, double sigma, uint32_t low, uint32_t high);
  // Any of the values.
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

// Heavy-tailed web text: the chance of a length falls as 1 / length, 8 .. 8192.
std::vector<uint32_t> ZipfLengths(size_t count, uint64_t seed);

// Tool-using agents: 60 % near 2,000 and 40 % near 24,000, 64 .. 32768.
std::vector<uint32_t> AgenticLengths(size_t count, uint64_t seed);

// Uniform in capacity/4 .. capacity/2, where two or three share a bin and greedy packers waste
// most. capacity >= 4.
std::vector<uint32_t> UniformLengths(size_t count, uint64_t seed, uint32_t capacity);

// 3 * triplets lengths that fill exactly `triplets` bins three by three, in random order; each is
// above capacity/4 and below capacity/2, so that no bin takes four. capacity >= 64.
std::vector<uint32_t> TripletLengths(size_t triplets, uint64_t seed, uint32_t capacity);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_GENERATORS_H_
