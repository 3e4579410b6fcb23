// Rows of shared prefixes as trainers make them: the shardings of trees (request/options.h), each
// as in the code of one system at the commit that presets.md names.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_REFERENCE_TREES_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_REFERENCE_TREES_H_

#include <optional>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// The placement of the sequences by the pass's sharding, which is one of trees. Families are the
// manifest's groups; without groups, the sequences that share anything. All ranks then get equally
// many rows: a rank with fewer has its largest rows halved, or gets empty ones if these are
// allowed. Nothing if a rank has too few sequences for that, or once a stop is requested.
//
// O(n log n): among the rows that share something with a sequence, only those of its nearest 64
// neighbours in depth-first order on either side are looked at.
std::optional<Placement> PlaceAsTrees(const Pass& pass, std::span<const SequenceIndex> sequences,
                                      const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_REFERENCE_TREES_H_
