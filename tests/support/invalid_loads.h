// Mistakes about loads, for invalid_request.h.

#ifndef BATCHPLAN_TESTS_SUPPORT_INVALID_LOADS_H_
#define BATCHPLAN_TESTS_SUPPORT_INVALID_LOADS_H_

#include <vector>

#include "tests/support/invalid_request.h"

namespace batchplan::testing {

std::vector<Mistake> LoadMistakes();

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_INVALID_LOADS_H_
