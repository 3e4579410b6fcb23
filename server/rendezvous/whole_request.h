// The one request that the parts of a step add up to.
//
//   absl::StatusOr<WholeRequest> whole = AssembleRequest(key, terms, contents);
//
// A pure function, so that every replica that assembles the same parts has the same request. Takes
// the time of a copy of all lengths.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_WHOLE_REQUEST_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_WHOLE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/store/step_store.h"

namespace batchplan {

struct WholeRequest {
  // Without a request_id.
  std::shared_ptr<v1::PlanBatchRequest> request;
  // Worker w's part starts at manifest position worker_offsets[w]; one more than there are workers.
  std::vector<uint32_t> worker_offsets;
};

// The request that the terms are of, without sequences. Aborted if they are not of a form that
// this version knows.
absl::StatusOr<v1::PlanBatchRequest> AgreedRequest(const StepKey& key, const std::string& terms);

// Of the terms that all workers share and the contents of their parts, by worker (part.h).
// InvalidArgument, naming the workers, if the parts don't go together; ResourceExhausted if they
// have more than `max_sequences` together, which is this server's limit and says nothing of the
// request; Aborted if one of them came with other terms, as after the store has lost the step and
// it was begun anew.
absl::StatusOr<WholeRequest> AssembleRequest(const StepKey& key, const std::string& terms,
                                             const std::vector<std::string>& contents,
                                             uint64_t max_sequences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_WHOLE_REQUEST_H_
