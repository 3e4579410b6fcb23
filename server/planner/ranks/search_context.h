// The circumstances of a search for the micro-batches of one mini-batch in one pass.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SEARCH_CONTEXT_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SEARCH_CONTEXT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

enum class PackingWork {
  // The pass's packer and effort, and every search there is before a request is refused.
  kAsAsked,
  // Greedy packers alone, for tries of thousands of divisions.
  kGreedy,
};

// Made for one call, which passes it on: `where` and `allowance` are views.
struct SearchContext {
  // The seed of random choices in the mini-batch.
  uint64_t seed = 0;
  // How errors begin: the pass, and the mini-batch if there are several.
  absl::string_view where = {};
  const Allowance& allowance;
  PackingWork work = PackingWork::kAsAsked;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SEARCH_CONTEXT_H_
