// Why ranks wait in a plan: what its step takes beyond an ideal one, divided among causes.
//
//   absl::StatusOr<std::vector<Explanation>> why = Explain(manifest, options, plan);
//   for (const std::string& sentence : why->front().sentences) ...
//
// Nothing is guessed. The time beyond the ideal step is
//   - work that the ideal step does not have: padding, exchange, repeated prefixes, the fixed cost
//     of further micro-batches. It is added up;
//   - waiting that every plan has. It is proven by lower bounds of the step time: of the request as
//     it is, and of the same sequences with one rule of the request after the other given up. What
//     a bound falls by with a rule is what the rule costs;
//   - the rest, of which nothing is known but that a better plan may exist.

#ifndef BATCHPLAN_SERVER_EXPLAIN_EXPLANATION_H_
#define BATCHPLAN_SERVER_EXPLAIN_EXPLANATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/plan.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

enum class Cause {
  // A sequence takes longer by itself than an even share of all work.
  kLongestSequence,
  // All sequences together can't be divided evenly among the ranks.
  kFewSequences,
  // Slots hold no more tokens than the budget, so that there are several, each as long as its
  // longest micro-batch.
  kBudget,
  // The same of the sequences that a micro-batch may have.
  kSequenceLimit,
  // The minimum and the multiple of micro-batches.
  kMicrobatchCounts,
  // The multiple of sequences in each micro-batch.
  kSequenceMultiple,
  // Ranks have equal numbers of sequences, exactly or within one.
  kEqualCounts,
  // Each mini-batch is divided among the ranks by itself.
  kMiniBatches,
  // Groups stay on one rank, or in one micro-batch.
  kGroups,
  // The manifest says on which rank sequences are.
  kGivenRanks,
  // Sequences of several kinds may not run at the same time.
  kKinds,
  // Limits of loads.
  kLoadLimits,
  // Phases of loads in which ranks wait for each other.
  kLoadPhases,
  // Stages of pipelines that wait for the first and the last micro-batch to pass through.
  kBubbles,
  // Stages that are not equal.
  kStages,
  // Work: padding of rows; exchange of context-parallel ranks, and what groups of several sizes
  // cost; prefixes that are computed more than once; the fixed cost of slots beyond the fewest.
  kPadding,
  kExchange,
  kRepeatedPrefixes,
  kMoreSlots,
  // Not known: the search may have missed a better plan, or the bounds are not sharp.
  kUnexplained,
};

// "longest_sequence", "unexplained".
absl::string_view NameOf(Cause cause);

struct ExplainedTime {
  Cause cause = Cause::kUnexplained;
  // In units of the cost model.
  double time = 0;
  // Whether no plan for the request is without it.
  bool in_any_plan = false;
};

// A slot that lasts as long as one sequence that is alone in its micro-batch.
struct LoneSequence {
  uint32_t mini_batch = 0;
  uint32_t slot = 0;
  // Its position in the manifest, and its tokens.
  uint32_t sequence = 0;
  uint32_t length = 0;
  // What ranks wait for it, on average.
  double waiting = 0;
};

// Of one pass.
struct Explanation {
  double predicted_step_time = 0;
  double ideal_step_time = 0;
  // The plan's, or what is proven beyond it.
  double lower_bound_step_time = 0;
  // Those that add anything, the most first, what is unexplained last. They add up to the predicted
  // over the ideal time.
  std::vector<ExplainedTime> causes;
  // What the ideal step itself takes for lengths to be multiples, and for the minimum and multiple
  // of micro-batches.
  double aligning = 0;
  double required_microbatches = 0;
  // What would stay of Cause::kBudget, at least, with twice the budget.
  double with_twice_the_budget = 0;
  // In lockstep without pipelines, those that are waited for most first.
  std::vector<LoneSequence> lone_sequences;
  // All of that in English: how much it is, at most four causes, and what is left to gain.
  std::vector<std::string> sentences;
};

// One explanation a pass, by the costs that the plan was made with. InvalidArgument if the plan's
// arrays do not fit each other and the request, or if the request can't be planned.
//
// O(n log n), a few times what the plan's own bounds take.
absl::StatusOr<std::vector<Explanation>> Explain(const Manifest& manifest,
                                                 const PlanOptions& options, const Plan& plan);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_EXPLAIN_EXPLANATION_H_
