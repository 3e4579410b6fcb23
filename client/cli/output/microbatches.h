// A plan's flat arrays as one record a micro-batch, what each of those costs, and the sums by rank
// and over the step: what the printers print.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_MICROBATCHES_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_MICROBATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "batchplan/v1/options.pb.h"
#include "batchplan/v1/plan.pb.h"
#include "server/planner/options.h"

namespace batchplan::cli {

struct Microbatch {
  uint32_t mini_batch = 0;
  uint32_t rank = 0;
  uint32_t slot = 0;
  // Its sequences are PassPlan.sequence_index[begin .. end).
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t row_width = 0;
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  // After all padding: the row, or n * width.
  uint64_t scheduled_tokens = 0;

  uint32_t sequences() const { return end - begin; }
};

struct RankLoad {
  uint64_t microbatches = 0;
  uint64_t sequences = 0;
  uint64_t true_tokens = 0;
  // Tokens: the budgets of its micro-batches, or the length of a longer sequence that runs alone.
  uint64_t room = 0;
  double cost = 0;
};

// `length` rounded up to `multiple`, at least 1.
uint64_t Align(uint64_t length, uint32_t multiple);

// The micro-batches of `plan`, in its order. InvalidArgument, naming the array, if the arrays do
// not fit each other: a plan from elsewhere is not trusted to.
absl::StatusOr<std::vector<Microbatch>> ListMicrobatches(const v1::PassPlan& plan, Layout layout,
                                                         uint32_t data_parallel);

// The same for each pass of `response`, a plan for a request of these options, complete.
// InvalidArgument also if it has another number of passes.
absl::StatusOr<std::vector<std::vector<Microbatch>>> ListPasses(
    const PlanOptions& options, const v1::PlanBatchResponse& response);

// What `model` predicts for one of the micro-batches of `plan`, in its units: every sequence at its
// aligned length and the row's tail, or, padded, every sequence at the row's width. Even an empty
// micro-batch has the fixed cost.
double MicrobatchCost(const Microbatch& microbatch, const v1::PassPlan& plan, Layout layout,
                      const v1::CostModel& model);

// One entry a rank, over all mini-batches. Costs as `cost_model` predicts them.
std::vector<RankLoad> SumByRank(const std::vector<Microbatch>& microbatches,
                                const v1::PassPlan& plan, const PassOptions& options,
                                uint32_t data_parallel, const v1::CostModel& cost_model);

// Predicted step time over all mini-batches, in the cost model's units, under either
// synchronization: a plan is made and measured for one, and its user may ask what it would take
// under the other.
struct StepTimes {
  // Ranks meet after every micro-batch: the sum over slots of the maximum over ranks.
  double lockstep = 0;
  // Ranks meet once a mini-batch: the maximum over ranks of the sum over slots.
  double accumulated = 0;
};

// `microbatches` are those of `plan`, as ListMicrobatches gives them. O(n).
StepTimes PredictStepTimes(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                           Layout layout, uint32_t data_parallel, const v1::CostModel& cost_model);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_MICROBATCHES_H_
