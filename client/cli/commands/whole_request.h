// The batch that the workers of a step have together.

#ifndef BATCHPLAN_CLIENT_CLI_COMMANDS_WHOLE_REQUEST_H_
#define BATCHPLAN_CLIENT_CLI_COMMANDS_WHOLE_REQUEST_H_

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan::cli {

// The request of `own`, a worker's, with the manifest of all workers, which `answer` has where
// return_request asked for it. InvalidArgument if it has none, or if the worker's sequences do not
// stand in it as the worker sent them.
absl::StatusOr<v1::PlanBatchRequest> WholeRequest(const v1::JoinBatchRequest& own,
                                                  const v1::JoinBatchResponse& answer);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_COMMANDS_WHOLE_REQUEST_H_
