// The sequences of a plan as one pass of a request sees them, with the planner's costs and bounds.

#ifndef BATCHPLAN_SERVER_EXPLAIN_PLANNED_PASS_H_
#define BATCHPLAN_SERVER_EXPLAIN_PLANNED_PASS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/plan.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/request/shared_prefixes.h"

namespace batchplan::explain {

// InvalidArgument unless the arrays of a plan fit each other and `options`, and each sequence is
// planned once in each pass.
absl::Status CheckArrays(const Manifest& manifest, const PlanOptions& options, const Plan& plan);

// The sequences of each mini-batch, and the slots that these have.
struct PlannedMiniBatches {
  SequenceLists sequences;
  std::vector<uint32_t> slots;

  PlannedMiniBatches AsOne() const;
};
PlannedMiniBatches MiniBatchesOf(const PlanOptions& options, const PassPlan& plan);

// What is proven of every plan.
struct ProvenTime {
  // In units of the cost model, and the slots that it counts.
  double time = 0;
  double slots = 0;
};

// Views the manifest's arrays.
class PlannedPass {
 public:
  // Of options.passes[index], whose plan is `plan`, with its arrays checked. InvalidArgument as by
  // Pass::Create.
  static absl::StatusOr<std::unique_ptr<PlannedPass>> Create(const Manifest& manifest,
                                                             const PlanOptions& options,
                                                             size_t index, const PassPlan& plan,
                                                             size_t mini_batches);
  PlannedPass(const PlannedPass&) = delete;
  PlannedPass& operator=(const PlannedPass&) = delete;

  const PlanOptions& options() const { return options_; }
  const Pass& pass() const { return *pass_; }

  // Of all plans that have these mini-batches.
  ProvenTime LeastTime(const PlannedMiniBatches& mini_batches) const;
  // Of the sequence that takes longest by itself, in units, where it takes least.
  struct Longest {
    SequenceIndex sequence;
    double time = 0;
  };
  Longest LongestOf(std::span<const SequenceIndex> sequences) const;

 private:
  PlannedPass(const Manifest& manifest, const PlanOptions& options);

  const Manifest manifest_;
  const PlanOptions options_;
  PlannedLengths planned_;
  std::optional<Alignments> alignments_;
  const Groups groups_;
  SharedPrefixes prefixes_;
  const Loads loads_;
  std::optional<Pass> pass_;
};

}  // namespace batchplan::explain

#endif  // BATCHPLAN_SERVER_EXPLAIN_PLANNED_PASS_H_
