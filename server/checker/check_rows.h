// Promises 2 and 5: every micro-batch keeps its budget, and every row is as wide as asked.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_ROWS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_ROWS_H_

#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// Internal if the length multiple is not the topology's, or if a micro-batch
//   holds more sequences than allowed;
//   is empty and has a width;
//   packed: is wider than the budget, narrower than its aligned sequences (or, with shared
//     prefixes, than the tokens it lays), no multiple of the length multiple, or not padded as
//     RowPadding says;
//   padded: has more than the budget in count * width, is narrower than one of its aligned
//     sequences, or no multiple of the length multiple. Ranks may share widths, so it may be wider
//     than its own longest, but not than the longest of its mini-batch.
// A sequence above the budget that is to run alone (OverlongPolicy::kAlone) is the only one of its
// micro-batch, whose width is its aligned length, whatever the budget and the padding.
absl::Status CheckRows(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_ROWS_H_
