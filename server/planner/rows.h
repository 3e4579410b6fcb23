// How wide the rows of the packed layout are.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/planner/options.h"

namespace batchplan {

// The most aligned tokens that a row may hold: the token budget, or the widest bucket.
uint32_t RowCapacity(const PassOptions& pass, uint32_t length_multiple);

// InvalidArgument, naming the bucket, if one is not a multiple of the length multiple or if none
// holds the longest sequence.
absl::Status CheckBucketsFit(const PassOptions& pass, uint32_t length_multiple,
                             uint32_t longest_aligned, absl::string_view where);

// Widens `rows`, the aligned tokens of each packed micro-batch of one mini-batch and at most
// RowCapacity, as pass.rows asks. Empty ones stay empty.
void PadRows(const PassOptions& pass, uint32_t length_multiple, std::vector<uint32_t>& rows);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_H_
