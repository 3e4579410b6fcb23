// The plan of a step, the same for all of its workers, and the slice of it that one rank executes.
//
// Written once by its maker; then shared and read from any thread.

#ifndef BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_
#define BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "batchplan/v1/batch_planner.pb.h"
#include "server/store/step_store.h"

namespace batchplan {

struct JoinedPlan {
  // Its step, and the incarnation of the step.
  StepKey key;
  std::string incarnation;
  // The answer to whoever asks for all of the plan, without the request.
  v1::JoinBatchResponse whole;
  // What was planned: of all parts, as JoinBatchResponse.request has it. Null if another replica
  // planned it.
  std::shared_ptr<const v1::PlanBatchRequest> request;

  const v1::PlanBatchResponse& plan() const { return whole.plan(); }
  // About the memory that it takes, with the serialized form that some of its workers ask for.
  size_t bytes() const;

  // `whole`, serialized by the first call for all: a thousand workers are sent the same bytes.
  // Empty if it is larger than protobuf allows, 2 GiB.
  const std::string& Serialized() const;

  // Sets `whole` to what another replica's Serialized() was; false if it is no such thing.
  bool Read(std::string serialized);

 private:
  mutable std::once_flag serialized_once_;
  mutable std::string serialized_;
};

// The sequences of the items that a plan for `manifest` deals.
google::protobuf::RepeatedPtrField<v1::ItemSequences> ItemSequencesOf(
    const v1::PlanBatchResponse& plan, const v1::Manifest& manifest);

// Which part of a plan a worker asks for.
struct AskedSlice {
  // The ranks that the plan is for, 0 read as 1, and one of them; with dynamic_context one of the
  // pool.
  uint32_t data_parallel = 1;
  uint32_t rank = 0;
  // With own_part_only: the worker.
  std::optional<uint32_t> own_part_of = std::nullopt;
};

// The part of a plan that one data-parallel rank executes. Writes into `slice`, which is empty, the
// micro-batches of the rank in every pass and mini-batch, in their order: microbatch_offsets begin
// at 0, sequence_index still are positions in the manifest. With dynamic_context its micro-batches
// are those of its groups, one a slot. Fields about the whole plan (microbatches_per_rank, metrics,
// decisions, fingerprint, versions, cost model) are copied; those with entries for sequences or
// workers (excluded, deferred, item_ranks, item_sequences, worker_offsets) too, or as own_part_only
// has them. As fast as a copy of the slice and a look at microbatches_per_rank, or context_sizes.
void SliceForRank(const v1::JoinBatchResponse& whole, const AskedSlice& asked,
                  v1::JoinBatchResponse* slice);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_RENDEZVOUS_JOINED_PLAN_H_
