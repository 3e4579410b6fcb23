// How many random cases a test tries, and with which seeds.

#ifndef BATCHPLAN_TESTS_KERNELS_RANDOM_CASES_H_
#define BATCHPLAN_TESTS_KERNELS_RANDOM_CASES_H_

#include <cstdint>

namespace batchplan::kernels {

// `count` times the environment's BATCHPLAN_TEST_SCALE, which is 1 if unset; at least one.
uint64_t Cases(uint64_t count);

// A different seed for each BATCHPLAN_TEST_SEED of the environment; `seed` itself if that is unset.
uint32_t Seed(uint32_t seed);

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_RANDOM_CASES_H_
