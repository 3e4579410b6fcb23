// The parts of a step: one worker's JoinBatchRequest as it is stored, and the request that the
// parts of all workers form.
//
//   absl::Status status = ValidateJoin(request);
//   StepKey key = StepKeyOf(request);
//   StepPart part = MakePart(std::move(request));
//   ... once all are in, on any replica ...
//   absl::StatusOr<WholeRequest> whole = AssembleRequest(key, terms, contents, max_sequences);
//
// Pure functions, so that every replica assembles the same request from the same parts. Each as
// fast as a copy of the lengths.

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

// InvalidArgument, naming field, value and limit, for mistakes of one worker's join; the planner
// checks the whole request.
absl::Status ValidateJoin(const v1::JoinBatchRequest& request);

// The key under which the workers of a step find each other.
StepKey StepKeyOf(const v1::JoinBatchRequest& request);

// The part of a valid request. The terms are as in terms.h; the content is a PartContent of
// step_record.proto. The caller adds who waits where, and for whom the part counts.
StepPart MakePart(v1::JoinBatchRequest request);

struct WholeRequest {
  // Without a request_id.
  std::shared_ptr<v1::PlanBatchRequest> request;
  // Worker w's part starts at manifest position worker_offsets[w]; one more than there are workers.
  std::vector<uint32_t> worker_offsets;
};

// The request of these terms, without sequences. Aborted if this version does not know their form.
absl::StatusOr<v1::PlanBatchRequest> AgreedRequest(const StepKey& key, const std::string& terms);

// The request with the terms of all workers and the contents of their parts, by worker.
// InvalidArgument, naming the workers, if the parts don't fit together; ResourceExhausted if they
// have more than `max_sequences` together, which is this server's limit and no fault of the
// request; Aborted if a part came with other terms, as after the store lost the step and it began
// anew.
absl::StatusOr<WholeRequest> AssembleRequest(const StepKey& key, const std::string& terms,
                                             const std::vector<std::string>& contents,
                                             uint64_t max_sequences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_PART_H_
