// What makes a pass impossible whatever its plan, found before anything is placed.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_CHECKS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_CHECKS_H_

#include "absl/status/status.h"
#include "server/planner/manifest.h"
#include "server/planner/pass.h"

namespace batchplan {

// InvalidArgument, naming field and limit, if a row bucket is no multiple of the length multiple or
// none holds the longest sequence within the token budget.
absl::Status CheckBucketsFit(const Pass& pass);

// InvalidArgument, naming a group, if its sequences have to share a micro-batch and none holds
// them.
absl::Status CheckGroupsFit(const Manifest& manifest, const Pass& pass);

// The micro-batches that may be left empty, of all ranks and mini-batches; 0 where none may.
// InvalidArgument if the pass asks for more than there may be.
absl::StatusOr<uint64_t> EmptyMicrobatchesAskedFor(const Pass& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_CHECKS_H_
