// Whether a request can be planned at all, by trying everything: the oracle that the planner's
// refusals are held against. Shares no code with the planner and reads its promises literally.

#ifndef BATCHPLAN_TESTS_SUPPORT_SATISFIABLE_H_
#define BATCHPLAN_TESTS_SUPPORT_SATISFIABLE_H_

#include <cstddef>

#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::testing {

// The sequences that Satisfiable takes at most.
inline constexpr size_t kMaxSatisfiableSequences = 12;

// Whether any plan keeps every promise made for a request whose options are valid, whose order is
// not shuffled, and which limits no dealt load, at the manifest's ranks or with the sharding's own
// rule: STRIDE_SORTED fixes every rank's sequences, CONTIGUOUS cuts the mini-batch into one run a
// rank, the others may put any sequence (or whole group, where groups stay on a rank) on any rank.
// Tries all ranks for all sequences and all micro-batches for all sets of them: O(ranks^n + 3^n).
bool Satisfiable(const Manifest& manifest, const PlanOptions& options);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_SATISFIABLE_H_
