// The parts of a step: one worker's JoinBatchRequest on its way into the store, and the one request
// that the parts of all workers add up to.
//
//   absl::Status status = ValidateJoin(request);
//   StepKey key = StepKeyOf(request);
//   StepPart part = MakePart(std::move(request));
//   ... once all are in, on any replica ...
//   absl::StatusOr<WholeRequest> whole = AssembleRequest(key, terms, contents, max_sequences);
//
// Pure functions, so that every replica that assembles the same parts has the same request. Each
// takes the time of a copy of the lengths.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_PART_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_PART_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/store/step_store.h"

namespace batchplan {

inline constexpr uint32_t kMaxWorldSize = 65536;

// What a worker alone can get wrong of a join; the whole request is the planner's to check.
// InvalidArgument, naming field, value and limit.
absl::Status ValidateJoin(const v1::JoinBatchRequest& request);

// Under which the workers of a step find each other.
StepKey StepKeyOf(const v1::JoinBatchRequest& request);

// The terms are terms.h's; the content is a PartContent of step_record.proto. Of a valid request.
// Who waits where, and whom it is counted for, is the caller's to add.
StepPart MakePart(v1::JoinBatchRequest request);

struct WholeRequest {
  // Without a request_id.
  std::shared_ptr<v1::PlanBatchRequest> request;
  // Worker w's part starts at manifest position worker_offsets[w]; one more than there are workers.
  std::vector<uint32_t> worker_offsets;
};

// The request that the terms are of, without sequences. Aborted if they are not of a form that
// this version knows.
absl::StatusOr<v1::PlanBatchRequest> AgreedRequest(const StepKey& key, const std::string& terms);

// Of the terms that all workers share and the contents of their parts, by worker.
// InvalidArgument, naming the workers, if the parts don't go together; ResourceExhausted if they
// have more than `max_sequences` together, which is this server's limit and says nothing of the
// request; Aborted if one of them came with other terms, as after the store has lost the step and
// it was begun anew.
absl::StatusOr<WholeRequest> AssembleRequest(const StepKey& key, const std::string& terms,
                                             const std::vector<std::string>& contents,
                                             uint64_t max_sequences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_PART_H_
