// How many random cases a test tries, and which.

#ifndef BATCHPLAN_TESTS_KERNELS_RANDOM_CASES_H_
#define BATCHPLAN_TESTS_KERNELS_RANDOM_CASES_H_

#include <cstdint>

namespace batchplan::kernels {

// `count` times BATCHPLAN_TEST_SCALE of the environment, which is 1 where it is not set, and at
// least one.
uint64_t Cases(uint64_t count);

// Another seed for each BATCHPLAN_TEST_SEED of the environment, `seed` itself where that is not
// set.
uint32_t Seed(uint32_t seed);

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_RANDOM_CASES_H_
