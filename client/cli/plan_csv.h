// A plan as comma-separated values, with a header line: for spreadsheets and data frames.

#ifndef BATCHPLAN_CLIENT_CLI_PLAN_CSV_H_
#define BATCHPLAN_CLIENT_CLI_PLAN_CSV_H_

#include <string>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/planner/options.h"

namespace batchplan::cli {

// One line a micro-batch:
//   pass,mini_batch,rank,slot,sequences,true_tokens,aligned_tokens,scheduled_tokens,row_width
// `pass` is the position of the pass in the request. `options` are the request's, complete.
// InvalidArgument if the response is not a plan for them.
absl::StatusOr<std::string> FormatMicrobatchesCsv(const PlanOptions& options,
                                                  const v1::PlanBatchResponse& response);

// One line a sequence, in execution order:
//   pass,mini_batch,rank,slot,sequence,length,aligned_length
// `sequence` is the position in the manifest, from 0. A sequence that was dropped has no line.
absl::StatusOr<std::string> FormatSequencesCsv(const PlanOptions& options,
                                               const v1::PlanBatchResponse& response);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_PLAN_CSV_H_
