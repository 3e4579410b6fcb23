// The plan of a step, the same for all of its workers, and the slice of it that one rank executes.
//
// Written once by its maker; then shared and read from any thread.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "server/store/step_store.h"

namespace batchplan {

struct JoinedPlan {
  // Its step, and the incarnation of the step.
  StepKey key;
  std::string incarnation;
  v1::PlanBatchResponse plan;
  // Worker w's part starts at manifest position worker_offsets[w]; one entry more than workers.
  std::vector<uint32_t> worker_offsets;
  // What was planned: of all parts, as JoinBatchResponse.request has it.
  std::shared_ptr<const v1::PlanBatchRequest> request;

  // The JoinBatchResponse of the whole plan, serialized, by the first call for all: a thousand
  // workers are sent the same bytes. Empty if it is larger than protobuf allows, 2 GiB.
  const std::string& Serialized() const;

 private:
  mutable std::once_flag serialized_once_;
  mutable std::string serialized_;
};

// The sequences of the items that a plan for `manifest` deals.
google::protobuf::RepeatedPtrField<v1::ItemSequences> ItemSequencesOf(
    const v1::PlanBatchResponse& plan, const v1::Manifest& manifest);

// The part of a plan that one data-parallel rank executes. Writes into `slice`, which is empty, the
// micro-batches of `rank` in every pass and mini-batch, in their order: microbatch_offsets begin at
// 0, sequence_index still are positions in the manifest. Fields about the whole plan
// (microbatches_per_rank, metrics, decisions, item_ranks, excluded, fingerprint, versions, cost
// model) are copied. `whole` is a plan for `data_parallel` ranks, 0 read as 1; rank <
// data_parallel. With dynamic_context `rank` is one of the pool, and its micro-batches are those of
// its groups, one a slot. As fast as a copy of the slice and a look at microbatches_per_rank, or
// context_sizes.
void SliceForRank(const v1::PlanBatchResponse& whole, uint32_t data_parallel, uint32_t rank,
                  v1::PlanBatchResponse* slice);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_
