// The identity of a plan.

#ifndef BATCHPLAN_SERVER_PLANNER_FINGERPRINT_H_
#define BATCHPLAN_SERVER_PLANNER_FINGERPRINT_H_

#include <stop_token>
#include <string>

#include "server/planner/plan.h"

namespace batchplan {

// SHA-256 as 64 hexadecimal digits over little-endian integers: for each pass the arrays
// sequence_index, microbatch_offsets, microbatches_per_rank and row_widths, each as a uint64 count
// and its uint32 values; then the excluded list the same way, three values an entry. Lengths,
// length multiples, names and metrics are not in it. Once a stop is requested it ends soon, with
// digits that are of no use.
std::string Fingerprint(const Plan& plan, const std::stop_token& stop = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FINGERPRINT_H_
