#include "server/rendezvous/joined_plan.h"

namespace batchplan {

const std::string& JoinedPlan::Serialized() const {
  std::call_once(serialized_once_, [this] {
    v1::JoinBatchResponse response;
    *response.mutable_plan() = plan;
    response.mutable_worker_offsets()->Add(worker_offsets.begin(), worker_offsets.end());
    if (!response.SerializeToString(&serialized_)) serialized_.clear();
  });
  return serialized_;
}

}  // namespace batchplan
