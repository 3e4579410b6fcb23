// Random requests of up to a megabyte that are hard to plan: many sequences, passes and
// mini-batches, deep pipelines, minimums, pools of 65,536 ranks. A seed gives the same request on
// every machine and compiler.

#ifndef BATCHPLAN_TESTS_SUPPORT_LARGE_REQUEST_H_
#define BATCHPLAN_TESTS_SUPPORT_LARGE_REQUEST_H_

#include <cstdint>

#include "tests/support/generated_request.h"

namespace batchplan::testing {

// The limit for lengths and groups on the wire.
inline constexpr uint64_t kLargeRequestBytes = 1'000'000;

// A request of any effort with valid options. Many can't be planned, for the reasons of
// GenerateRequest or because they exceed a limit of the planner.
GeneratedRequest GenerateLargeRequest(uint64_t seed);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_LARGE_REQUEST_H_
