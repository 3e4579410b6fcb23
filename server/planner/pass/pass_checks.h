// What makes a pass impossible whatever its plan, found before anything is placed.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_PASS_CHECKS_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_PASS_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// InvalidArgument, naming the field, if rows are padded to buckets and none holds the longest
// sequence within the token budget.
absl::Status CheckBucketsFit(const Pass& pass);

// InvalidArgument, naming the group, if a group of sequences has to share a micro-batch and has too
// many or too long sequences for one.
absl::Status CheckGroupsFit(const Manifest& manifest, const Pass& pass);

// How many empty micro-batches the pass's minimum and multiple may need, over all ranks and
// mini-batches; 0 where none may be empty. InvalidArgument, naming the limit, if that is too many.
absl::StatusOr<uint64_t> EmptyMicrobatchesAskedFor(const Pass& pass);

// InvalidArgument, naming the group, if a group that stays in one micro-batch has several kinds,
// but slots may have only one.
absl::Status CheckKindsOfGroups(const Manifest& manifest, const Pass& pass);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_PASS_CHECKS_H_
