// The training step by plan: every rank of DP x CP a thread of its own, which fetches the plan,
// packs its micro-batches, runs the model on the packed rows, in which it meets the other ranks of
// its group, and restores what comes out.

#ifndef BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_RANKS_STEP_H_
#define BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_RANKS_STEP_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cpp/examples/worker/batch.h"
#include "client/cpp/examples/worker/model.h"
#include "client/cpp/examples/worker/step_results.h"

namespace batchplan::examples {

struct RanksResults {
  StepResults results;
  std::string fingerprint;
  // Micro-batches of each rank, tokens of all rows, and the ranks of the largest group.
  size_t microbatches_per_rank = 0;
  uint64_t scheduled_tokens = 0;
  uint32_t largest_group = 0;
};

// Runs the step on the ranks of `request.topology()`, with dynamic_context those of the pool, for
// its first pass, and adds up what the ranks computed, as an all-reduce would. `request` has the
// batch's lengths and one mini-batch.
//
// The first error of any rank, or Internal if two ranks got different plans.
absl::StatusOr<RanksResults> RunRanks(const Client& client, const v1::PlanBatchRequest& request,
                                      const Batch& batch, const Model& model);

}  // namespace batchplan::examples

#endif  // BATCHPLAN_CLIENT_CPP_EXAMPLES_WORKER_RANKS_STEP_H_
