// The plan of a step, the same for all of its workers.
//
// Written once, by whoever makes it; then shared and read from any thread.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "server/store/step_store.h"

namespace batchplan {

struct JoinedPlan {
  // Of which step it is, and of which incarnation of it.
  StepKey key;
  std::string incarnation;
  v1::PlanBatchResponse plan;
  // Worker w's part starts at manifest position worker_offsets[w]; one more than there are workers.
  std::vector<uint32_t> worker_offsets;

  // The JoinBatchResponse of the whole plan, serialized, by the first call for all: a thousand
  // workers are sent the same bytes. Empty if it is larger than protobuf allows, 2 GiB.
  const std::string& Serialized() const;

 private:
  mutable std::once_flag serialized_once_;
  mutable std::string serialized_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_
