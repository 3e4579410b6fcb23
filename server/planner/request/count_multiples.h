// How many sequences micro-batches may have: multiples of so many.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_COUNT_MULTIPLES_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_COUNT_MULTIPLES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/planner/request/options.h"

namespace batchplan {

// InvalidArgument, naming field and value, if a pass's sequence_count_multiple is beyond its limit,
// or beside what it can't be kept with.
absl::Status CheckCountMultiples(const PlanOptions& options);

// What divides the number of a rank's sequences in a mini-batch, so that every pass can have its
// multiples: the least common one of all passes.
uint32_t RankMultipleOf(const PlanOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_COUNT_MULTIPLES_H_
