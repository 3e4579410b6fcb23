// A plan, maybe from elsewhere, as a file: comma-separated values with a header line, for
// spreadsheets and data frames; or a page for the browser.
//
// `options` are the request's, complete. InvalidArgument if the response is not a plan for them.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_FILES_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/explain/plan_sentences.h"
#include "server/pages/plan_page.h"
#include "server/planner/request/options.h"

namespace batchplan::cli {

// One line a micro-batch:
//   pass,mini_batch,rank,slot,sequences,true_tokens,aligned_tokens,scheduled_tokens,row_width
// `pass` is the position of the pass in the request. With dynamic_context `rank` is the first of
// the group's ranks in the pool, and a last column, here and below, `context_parallel`, has their
// number.
absl::StatusOr<std::string> FormatMicrobatchesCsv(const PlanOptions& options,
                                                  const v1::PlanBatchResponse& response);

// One line a sequence, in execution order:
//   pass,mini_batch,rank,slot,sequence,length,aligned_length
// `sequence` is the position in the manifest, from 0. A sequence that was dropped has no line.
absl::StatusOr<std::string> FormatSequencesCsv(const PlanOptions& options,
                                               const v1::PlanBatchResponse& response);

// One HTML file that needs nothing else, about 12 bytes a sequence. It has `sentences` if there are
// any.
absl::StatusOr<std::string> FormatPlanPage(const v1::PlanBatchRequest& request,
                                           const PlanOptions& options,
                                           const v1::PlanBatchResponse& response,
                                           const PlanOrigin& origin,
                                           const absl::StatusOr<PlanSentences>& sentences);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_PLAN_FILES_H_
