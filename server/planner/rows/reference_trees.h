// Rows of shared prefixes as trainers make them: the shardings of trees (request/options.h), each
// after the code of one system at the commit that presets.md names.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_REFERENCE_TREES_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_REFERENCE_TREES_H_

#include <optional>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// The placement that the pass's sharding, which is one of trees, gives the sequences. Families are
// the manifest's groups; without groups, the sequences that share anything. All ranks then get as
// many rows: those of a rank that has fewer are halved, the largest first, or where that is allowed
// empty ones are added. Nothing if a rank has too few sequences for that, or once a stop is
// requested.
//
// O(n log n): of the rows that share something with a sequence, those of its nearest 64 neighbours
// in depth-first order on either side are looked at.
std::optional<Placement> PlaceAsTrees(const Pass& pass, std::span<const SequenceIndex> sequences,
                                      const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_REFERENCE_TREES_H_
