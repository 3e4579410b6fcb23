// The batch that the workers of a step have together, as one of them can tell from the plan.

#ifndef BATCHPLAN_CLIENT_CLI_COMMANDS_WHOLE_REQUEST_H_
#define BATCHPLAN_CLIENT_CLI_COMMANDS_WHOLE_REQUEST_H_

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan::cli {

// The request of `own`, a worker's, with the manifest of all workers: its lengths are those that
// `answer`, a whole plan, says of each sequence, 0 of those that wait. Without groups, ages,
// shared prefixes, kinds and loads, which a plan does not tell, and what is asked of loads. Where
// the worker gives ranks, they are its own for its own sequences, and the plan's for the others.
// InvalidArgument if the plan leaves out a sequence, or has one that no worker sent.
absl::StatusOr<v1::PlanBatchRequest> WholeRequest(const v1::JoinBatchRequest& own,
                                                  const v1::JoinBatchResponse& answer);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_COMMANDS_WHOLE_REQUEST_H_
