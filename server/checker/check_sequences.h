// Promises 1 and 4: every sequence is in exactly one place of each pass or listed as excluded, and
// that place respects mini-batches, groups, equal counts, the manifest's ranks and those of the
// pass before.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_SEQUENCES_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_SEQUENCES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/checker/pass_under_check.h"
#include "server/checker/request_demands.h"
#include "server/planner/plan.h"

namespace batchplan::checker {

// Internal unless plan.excluded is exactly the list of what the overlong policy touched, ascending,
// with true lengths and reasons.
absl::Status CheckExclusions(const RequestDemands& demands, const Plan& plan);

// The micro-batch of each sequence; kNowhere for dropped ones. Internal if a sequence is missing,
// listed twice, out of range, listed although dropped, or planned with another length than its own
// (or, if truncated, than the limit).
absl::StatusOr<Placement> CheckSequences(const PassUnderCheck& pass,
                                         const std::vector<Microbatch>& microbatches);

// A pass whose sequences have been found.
struct PlacedPass {
  const PassUnderCheck& pass;
  const std::vector<Microbatch>& microbatches;
  const Placement& placement;
};

// Internal if a mini-batch does not hold what it should. With the order preserved that is its piece
// of the manifest, stratified its piece of the manifest ordered by length, shuffled the right
// number of sequences or groups; always without dropped sequences, but never nothing.
absl::Status CheckMiniBatches(const PlacedPass& placed);

// Internal if members of a group are further apart than the policy allows.
absl::Status CheckGroups(const PlacedPass& placed);

// Internal if a sequence is on another rank than the manifest gives it.
absl::Status CheckGivenRanks(const PlacedPass& placed);

// Internal if ranks differ in their numbers of sequences in a mini-batch, without dropped ones,
// although the first pass, which fixes the ranks, asked for equal numbers, or differ by more than
// one although it asked for that.
absl::Status CheckEqualCounts(const PlacedPass& placed);

// Internal if `later` has a sequence on other ranks than `first`, or, if both respect mini-batches,
// in another mini-batch.
absl::Status CheckSameRanks(const PlacedPass& first, const PlacedPass& later);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_SEQUENCES_H_
