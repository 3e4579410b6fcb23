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
#include "server/planner/request/options.h"

namespace batchplan::cli {

struct Microbatch {
  uint32_t mini_batch = 0;
  // The data-parallel rank; where groups differ in size, the first of its ranks in the pool.
  uint32_t rank = 0;
  uint32_t slot = 0;
  // The ranks that share its tokens, and the multiple that they round lengths up to.
  uint32_t context_parallel = 1;
  uint32_t length_multiple = 1;
  // Its sequences are PassPlan.sequence_index[begin .. end).
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t row_width = 0;
  uint64_t true_tokens = 0;
  // Without shared tokens, which an earlier sequence put in the row.
  uint64_t laid_tokens = 0;
  // Equals laid_tokens where sequences share.
  uint64_t aligned_tokens = 0;
  // After all padding: the row, or n * width.
  uint64_t scheduled_tokens = 0;
  // What its loads cost each of its ranks (load_costs.h): in one phase with its tokens, and in
  // phases of their own, first of separate loads, then of dealt ones. A phase of its own lasts
  // equally long on all ranks of the slot.
  double load_cost = 0;
  std::vector<double> separate_costs = {};
  std::vector<double> dealt_costs = {};

  uint32_t sequences() const { return end - begin; }
};

struct RankLoad {
  uint64_t microbatches = 0;
  uint64_t sequences = 0;
  // Where groups differ in size, its part of its groups' tokens.
  uint64_t laid_tokens = 0;
  // Tokens: the budgets of its micro-batches, or the length of a longer sequence that runs alone.
  // Where groups differ in size, its part of the budgets.
  uint64_t room = 0;
  double cost = 0;
};

// `length` rounded up to `multiple`, at least 1.
uint64_t Align(uint64_t length, uint32_t multiple);

// The micro-batches of `plan`, in its order. InvalidArgument, naming the array, if the arrays do
// not fit each other: a plan from elsewhere is not trusted to.
absl::StatusOr<std::vector<Microbatch>> ListMicrobatches(const v1::PassPlan& plan, Layout layout,
                                                         const Topology& topology);

// The number of ranks that have micro-batches of their own: data-parallel ranks, or with
// dynamic_context the pool's.
uint32_t RanksOf(const Topology& topology);

// The micro-batches of each pass of `response`, a complete plan for a request of these options.
// InvalidArgument as ListMicrobatches, or if it has another number of passes, or counts of
// micro-batches that the pipeline's schedule has no order for.
absl::StatusOr<std::vector<std::vector<Microbatch>>> ListPasses(
    const PlanOptions& options, const v1::PlanBatchResponse& response);

// What `model` predicts for one of the micro-batches of `plan`, in its units, on one of the ranks
// that share it: every sequence at its aligned length and the row's tail, or, padded, every
// sequence at the row's width; where sequences share, each from the first token that the row has
// not yet. Tokens are divided among these ranks; what a sequence and a micro-batch cost by
// themselves each of them has. On a pipeline that is what all stages take together. Even an empty
// micro-batch has its fixed cost. Without the phases of loads.
double MicrobatchCost(const Microbatch& microbatch, const v1::PassPlan& plan, Layout layout,
                      const v1::CostModel& model);

// One entry a rank (RanksOf), over all mini-batches. Costs are those of MicrobatchCost and of
// separate loads. `pass` is one of `options`, the one that `plan` is of.
std::vector<RankLoad> SumByRank(const std::vector<Microbatch>& microbatches,
                                const v1::PassPlan& plan, const PlanOptions& options,
                                const PassOptions& pass, const v1::CostModel& cost_model);

// Predicted step time over all mini-batches, in the cost model's units, under either
// synchronization (StepClock of step_clock.h): a plan is made and measured for one, and its user
// may ask what it would take under the other.
struct StepTimes {
  double lockstep = 0;
  double accumulated = 0;
};

// `microbatches` are those of `plan`, as ListPasses gives them. O(n log n), and on pipelines O(p v)
// a micro-batch.
StepTimes PredictStepTimes(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                           const PlanOptions& options, const PassOptions& pass,
                           const v1::CostModel& cost_model);

// The most tokens, padding included, whose activations a stage of a rank's pipeline keeps at one
// time: what its memory must have room for. Of the tokens that context-parallel ranks share, they
// are the part of one of these ranks. `microbatches` are those of `plan`, as ListPasses gives them;
// not without a pipeline. O(n + microbatches * v).
//
// A stage keeps a micro-batch's activations from its forward until its backward is done. With w
// forwards before the first backward, that is w + 1 forwards in a row, at most, and the first stage
// has the most of them before: with 1F1B min(p, m) micro-batches, stage s min(p - s, m).
// Interleaved, one of v chunks keeps a v-th of a stage's layers, so that the tokens of
// min(2(p-1) + (v-1)g + 1, m v) forwards are divided by v, rounded up. Forwards alone keep nothing,
// and work on one micro-batch at a time.
uint64_t MostTokensInFlight(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                            const PlanOptions& options, const PassOptions& pass);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_MICROBATCHES_H_
