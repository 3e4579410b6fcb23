// Random requests of up to a megabyte that are made to be long to plan: many sequences, passes and
// mini-batches, deep pipelines, minimums, pools of 65,536 ranks. The same for one seed on every
// machine and compiler.

#ifndef BATCHPLAN_TESTS_SUPPORT_LARGE_REQUEST_H_
#define BATCHPLAN_TESTS_SUPPORT_LARGE_REQUEST_H_

#include <cstdint>

#include "tests/support/generated_request.h"

namespace batchplan::testing {

// What lengths and groups may take on the wire.
inline constexpr uint64_t kLargeRequestBytes = 1'000'000;

// Of any effort. Its options are valid. Many of them can't be planned, for the reasons of
// GenerateRequest's or because they are above a limit of what is planned.
GeneratedRequest GenerateLargeRequest(uint64_t seed);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_LARGE_REQUEST_H_
