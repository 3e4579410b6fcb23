// The best plan of a few sequences that share prefixes, found by trying everything. The planner and
// its lower bounds are tested against it; it shares no code with them.

#ifndef BATCHPLAN_TESTS_SUPPORT_BEST_SHARED_PLAN_H_
#define BATCHPLAN_TESTS_SUPPORT_BEST_SHARED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::testing {

// BestSharedPlan accepts up to this many sequences; eight have 4,140 partitions into rows.
inline constexpr size_t kMaxBestSharedPlanSequences = 8;

struct BestPlan {
  // Each is the least of any plan; one plan need not have both.
  double step_time = 0;
  uint32_t microbatches = 0;
};

// For one packed pass without pipeline or selection, in one mini-batch, with rows unpadded or
// padded to the capacity. No sequence is longer than the budget unless such sequences run alone.
// None if there is no plan. Tries all partitions of the sequences into rows, whose tokens are
// counted by definition (naive_tokens.h), and all divisions of rows among ranks. A rank's rows are
// in descending order of cost, which is optimal: it makes every slot as short as possible.
std::optional<BestPlan> BestSharedPlan(const Manifest& manifest, const PlanOptions& options);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_BEST_SHARED_PLAN_H_
