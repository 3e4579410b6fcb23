// Why a mini-batch can't be assigned: errors that name the limits in conflict.
//
// `where` names pass and mini-batch and begins each message. All are InvalidArgument.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_CONFLICTS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_CONFLICTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/planner/pass/pass.h"

namespace batchplan {

// The mini-batch has `items`, but its ranks need `per_rank` micro-batches each.
absl::Status TooFewItems(const Pass& pass, size_t items, uint64_t per_rank,
                         absl::string_view where);

// The mini-batch has fewer groups that stay on a rank than there are ranks.
absl::Status TooFewGroups(const Pass& pass, size_t groups, absl::string_view where);

// Rank `rank` has `items`, but needs `slots` micro-batches like every rank.
absl::Status TooFewItemsOnRank(const Pass& pass, size_t rank, size_t items, uint64_t slots,
                               absl::string_view where);

// Rank `fullest` needs `needed` micro-batches for its tokens, but rank `poorest` has only `items`,
// so that no rank can have more than `slots`.
absl::Status TooFewSlots(const Pass& pass, size_t fullest, uint64_t needed, size_t poorest,
                         size_t items, uint64_t slots, absl::string_view where);

// `slots` on every rank are more than most_with_empty().
absl::Status TooManyEmpty(const Pass& pass, uint64_t slots, absl::string_view where);

// `units` are no multiple of the ranks that STRIDE_SORTED deals them to.
absl::Status UnitsDontDivide(const Pass& pass, size_t units, absl::string_view where);

// `sequences` are no multiple of the ranks, but equal counts are asked for.
absl::Status SequencesDontDivide(const Pass& pass, uint64_t sequences, absl::string_view where);

// No way was found to give ranks equal counts of `sequences` in `groups` that stay on a rank.
absl::Status GroupsDontDivide(const Pass& pass, size_t groups, uint64_t sequences,
                              absl::string_view where);

// No micro-batches were found that keep the limits on loads.
absl::Status NotWithinLimits(const Pass& pass, absl::string_view where);

// The manifest gives rank `rank` no sequence, and micro-batches may not be empty.
absl::Status NothingOnRank(const Pass& pass, size_t rank, absl::string_view where);

struct RankCount {
  size_t rank = 0;
  uint64_t sequences = 0;
};

// The manifest gives these two ranks so many sequences, but equal counts are asked for.
absl::Status UnequalCounts(const Pass& pass, RankCount fewest, RankCount most,
                           absl::string_view where);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_CONFLICTS_H_
