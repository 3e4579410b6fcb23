// Multiples for the number of sequences of a micro-batch (Pass.sequence_count_multiple).

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_COUNT_MULTIPLES_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_COUNT_MULTIPLES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/planner/request/options.h"

namespace batchplan {

// InvalidArgument, naming field and value, if a pass's sequence_count_multiple is above its limit
// or set with an option that excludes it.
absl::Status CheckCountMultiples(const PlanOptions& options);

// The least common multiple of all passes' multiples. It divides the number of a rank's sequences
// in a mini-batch, so that every pass can keep its multiple.
uint32_t RankMultipleOf(const PlanOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_COUNT_MULTIPLES_H_
