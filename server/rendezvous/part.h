// One worker's JoinBatchRequest: what must hold of it alone, and how it goes into the store.
//
//   absl::Status status = ValidateJoin(request);
//   StepKey key = KeyOf(request);
//   StepPart part = MakePart(std::move(request));
//
// Pure functions. They take the time of a copy of the lengths.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_PART_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_PART_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/store/step_store.h"

namespace batchplan {

inline constexpr uint32_t kMaxWorldSize = 65536;
inline constexpr size_t kMaxJobIdBytes = 128;
inline constexpr size_t kMaxRunIdBytes = 128;

// What a worker alone can get wrong of a join; the whole request is the planner's to check.
// InvalidArgument, naming field, value and limit.
absl::Status ValidateJoin(const v1::JoinBatchRequest& request);

// Under which the workers of a step find each other.
StepKey KeyOf(const v1::JoinBatchRequest& request);

// The terms are terms.h's; the content is a PartContent of step_record.proto. Of a valid request.
// Who waits where, and whom it is counted for, is the caller's to add.
StepPart MakePart(v1::JoinBatchRequest request);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_PART_H_
