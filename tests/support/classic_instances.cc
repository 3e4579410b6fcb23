#include "tests/support/classic_instances.h"

#include <cstddef>

#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

ClassicInstance Uniform(uint64_t seed, size_t count, uint64_t low, uint64_t high,
                        uint32_t capacity) {
  RandomStream random(seed);
  ClassicInstance instance{.lengths = {}, .capacity = capacity};
  for (size_t i = 0; i < count; ++i) {
    instance.lengths.push_back(static_cast<uint32_t>(random.Between(low, high)));
  }
  return instance;
}

template <size_t kCount>
ClassicInstance FalkenauerUniform(uint64_t seed) {
  return Uniform(seed, kCount, 20, 100, 150);
}

template <size_t kTriplets>
ClassicInstance FalkenauerTriplets(uint64_t seed) {
  return {.lengths = TripletLengths(kTriplets, seed, 1000), .capacity = 1000};
}

ClassicInstance Scholl1(uint64_t seed) {
  constexpr uint32_t kLeast[] = {1, 20, 30};
  constexpr uint32_t kCapacity[] = {100, 120, 150};
  return Uniform(seed, seed % 2 == 0 ? 100 : 200, kLeast[seed % 3], 100, kCapacity[seed / 3 % 3]);
}

// Items of C/w on average, up to d percent more or less.
ClassicInstance Scholl2(uint64_t seed) {
  constexpr uint32_t kInABin[] = {3, 5, 7, 9};
  constexpr uint32_t kDeviation[] = {20, 50, 90};
  const uint32_t mean = 1000 / kInABin[seed % 4];
  const uint32_t deviation = mean * kDeviation[seed % 3] / 100;
  return Uniform(seed, seed % 2 == 0 ? 100 : 200, mean - deviation, mean + deviation, 1000);
}

ClassicInstance Scholl3(uint64_t seed) { return Uniform(seed, 200, 20000, 35000, 100000); }

ClassicInstance Schwerin(uint64_t seed) {
  return Uniform(seed, seed % 2 == 0 ? 100 : 120, 150, 200, 1000);
}

ClassicInstance Wide(uint64_t seed) {
  RandomStream random(seed);
  const uint64_t low = random.Between(1, 100);
  const uint64_t high = random.Between(600, 800);
  return Uniform(seed, 160 + 20 * (seed % 3), low, high, 1000);
}

ClassicInstance Small(uint64_t seed) { return Uniform(seed, 60, 1000, 9000, 16384); }

}  // namespace

std::vector<ClassicShape> ClassicShapes() {
  return {{"uniform, 120", FalkenauerUniform<120>},
          {"uniform, 250", FalkenauerUniform<250>},
          {"uniform, 500", FalkenauerUniform<500>},
          {"uniform, 1000", FalkenauerUniform<1000>},
          {"triplets, 60", FalkenauerTriplets<20>},
          {"triplets, 120", FalkenauerTriplets<40>},
          {"triplets, 249", FalkenauerTriplets<83>},
          {"triplets, 501", FalkenauerTriplets<167>},
          {"Scholl 1", Scholl1},
          {"Scholl 2", Scholl2},
          {"Scholl 3", Scholl3},
          {"Schwerin", Schwerin},
          {"wide, 160-200", Wide},
          {"small, 60", Small}};
}

}  // namespace batchplan::testing
