// Whether a request can be planned at all, found by trying everything. The planner's refusals are
// tested against it; it shares no code with the planner and reads its promises literally.

#ifndef BATCHPLAN_TESTS_SUPPORT_SATISFIABLE_H_
#define BATCHPLAN_TESTS_SUPPORT_SATISFIABLE_H_

#include <cstddef>

#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::testing {

// Satisfiable accepts up to this many sequences.
inline constexpr size_t kMaxSatisfiableSequences = 12;

// Whether any plan keeps all promises for a request with valid options, without a shuffle and
// without a limit on a dealt load. Ranks are the manifest's or follow the sharding: STRIDE_SORTED
// fixes them, CONTIGUOUS cuts the mini-batch into one run a rank, and the others may put any
// sequence (or whole group, if groups stay on a rank) on any rank. Tries all ranks for all
// sequences and all micro-batches for all sets of them: O(ranks^n + 3^n).
bool Satisfiable(const Manifest& manifest, const PlanOptions& options);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_SATISFIABLE_H_
