// The balanced solver of joint passes: ranks, slots and rows together.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_SOLVE_ROWS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_SOLVE_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Placements of `sequences` in rows of a joint pass (Pass::is_joint), by predicted step time, the
// shortest first. Subtrees are put into rows whole, or in pieces of several sizes, for the fewest
// slots and a few more. The best of these and of the placements `others` are improved by moving and
// exchanging subtrees and sequences between rows (row_search.h). The answer also has those
// placements of `others` and `presets` that keep the limits on loads and the multiples. If
// `rank_of`, by place in `sequences`, is not empty, sequences stay on these ranks.
std::vector<Placement> SolveRows(const Pass& pass, std::span<const SequenceIndex> sequences,
                                 std::span<const uint32_t> rank_of, std::vector<Placement> others,
                                 std::vector<Placement> presets, const SearchContext& context);

// The ranks of a placement's sequences, in the order of `sequences`.
std::vector<uint32_t> RanksOf(const Placement& placement, std::span<const SequenceIndex> sequences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_SOLVE_ROWS_H_
