// The best plan of a few sequences that share prefixes, by trying everything: the oracle that the
// planner and its lower bounds are held against. Shares no code with them.

#ifndef BATCHPLAN_TESTS_SUPPORT_BEST_SHARED_PLAN_H_
#define BATCHPLAN_TESTS_SUPPORT_BEST_SHARED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::testing {

// The sequences that BestSharedPlan takes at most: eight have 4,140 partitions into rows.
inline constexpr size_t kMaxBestSharedPlanSequences = 8;

struct BestPlan {
  // Each the least that any plan has; one plan need not have both.
  double step_time = 0;
  uint32_t microbatches = 0;
};

// Of one packed pass without a pipeline, its rows unpadded or padded to the capacity, its sequences
// in one mini-batch without a selection; none of them is longer than the budget, unless such are to
// run alone. Nothing if there is no plan. Tries all partitions into rows, of tokens by definition
// (naive_tokens.h), and all divisions of these among ranks; the rows of a rank stand by descending
// cost, which is best, as each slot then is the least that it can be.
std::optional<BestPlan> BestSharedPlan(const Manifest& manifest, const PlanOptions& options);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_BEST_SHARED_PLAN_H_
