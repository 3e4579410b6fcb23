#include "tests/support/generators.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"

namespace batchplan::testing {
namespace {

// e^x for |x| < 30, by additions and multiplications alone: IEEE 754 defines these to the last bit.
double Exp(double x) {
  constexpr int kHalvings = 10;
  const double reduced = x / (1 << kHalvings);
  double term = 1;
  double sum = 1;
  for (int i = 1; i <= 12; ++i) {
    term *= reduced / i;
    sum += term;
  }
  for (int i = 0; i < kHalvings; ++i) sum *= sum;
  return sum;
}

uint32_t Clip(double length, uint32_t low, uint32_t high) {
  if (length <= low) return low;
  if (length >= high) return high;
  return static_cast<uint32_t>(length);
}

// The chance of a length is proportional to 1 / length.
uint32_t Zipf(RandomStream& random, uint32_t low, uint32_t octaves) {
  constexpr double kLog2 = 0.69314718055994530942;
  return Clip(low * Exp(random.Uniform() * octaves * kLog2), low, low << octaves);
}

template <typename Make>
std::vector<uint32_t> Repeat(size_t count, uint64_t seed, Make make) {
  RandomStream random(seed);
  std::vector<uint32_t> lengths;
  lengths.reserve(count);
  for (size_t i = 0; i < count; ++i) lengths.push_back(make(random));
  return lengths;
}

}  // namespace

uint64_t Cases(uint64_t count) {
  const char* const text = std::getenv("BATCHPLAN_TEST_SCALE");
  if (text == nullptr || *text == '\0') return count;
  double scale = 0;
  if (!absl::SimpleAtod(text, &scale)) std::abort();
  return static_cast<uint64_t>(std::max(1.0, static_cast<double>(count) * scale));
}

uint64_t Seed(uint64_t seed) {
  constexpr uint64_t kApart = 1'200'000;
  const char* const lane = std::getenv("BATCHPLAN_TEST_SEED");
  return lane == nullptr ? seed : seed + kApart * std::strtoull(lane, nullptr, 10);
}

std::vector<uint64_t> Seeds(uint64_t count) {
  std::vector<uint64_t> seeds(Cases(count));
  std::iota(seeds.begin(), seeds.end(), Seed(0));
  return seeds;
}

uint64_t RandomStream::Between(uint64_t low, uint64_t high) {
  const uint64_t span = high - low + 1;
  // The remainder favours low numbers by less than span / 2^64. A span of 0 means 2^64.
  return span == 0 ? bits_() : low + bits_() % span;
}

double RandomStream::Uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }

double RandomStream::Normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += Uniform();
  return sum;
}

uint32_t RandomStream::Lognormal(double median, double sigma, uint32_t low, uint32_t high) {
  return Clip(median * Exp(sigma * Normal()), low, high);
}

std::vector<uint32_t> MathsLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed,
                [](RandomStream& random) { return random.Lognormal(900, 0.9, 16, 16384); });
}

std::vector<uint32_t> LongCotLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed,
                [](RandomStream& random) { return random.Lognormal(4000, 1.1, 64, 65536); });
}

std::vector<uint32_t> ZipfLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed, [](RandomStream& random) { return Zipf(random, 8, 10); });
}

std::vector<uint32_t> AgenticLengths(size_t count, uint64_t seed) {
  return Repeat(count, seed, [](RandomStream& random) {
    return random.Lognormal(random.Chance(60) ? 2000 : 24000, 0.2, 64, 32768);
  });
}

std::vector<uint32_t> UniformLengths(size_t count, uint64_t seed, uint32_t capacity) {
  return Repeat(count, seed, [capacity](RandomStream& random) {
    return static_cast<uint32_t>(random.Between(capacity / 4, capacity / 2));
  });
}

std::vector<uint32_t> TripletLengths(size_t triplets, uint64_t seed, uint32_t capacity) {
  RandomStream random(seed);
  std::vector<uint32_t> lengths;
  lengths.reserve(3 * triplets);
  const uint32_t least = capacity / 4 + 1;
  const uint32_t most = (capacity - 1) / 2;
  for (size_t t = 0; t < triplets; ++t) {
    // The first length leaves room for two more; the second one keeps the third within the limits.
    const auto first =
        static_cast<uint32_t>(random.Between(least, std::min(most, capacity - 2 * least)));
    const uint32_t rest = capacity - first;
    const auto second = static_cast<uint32_t>(
        random.Between(std::max(least, rest - most), std::min(most, rest - least)));
    lengths.insert(lengths.end(), {first, second, rest - second});
  }
  for (size_t i = lengths.size(); i > 1; --i) {
    std::swap(lengths[i - 1], lengths[random.Between(0, i - 1)]);
  }
  return lengths;
}

}  // namespace batchplan::testing
