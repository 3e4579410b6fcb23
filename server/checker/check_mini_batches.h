// Promise 4: mini-batch boundaries hold, groups stay together, ranks keep their sequences.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_MINI_BATCHES_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_MINI_BATCHES_H_

#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// A pass whose sequences have been found.
struct PlacedPass {
  const PassUnderCheck& pass;
  const std::vector<Microbatch>& microbatches;
  const Placement& placement;
};

// Internal if a mini-batch does not hold what it should: with the order preserved exactly its piece
// of the manifest, shuffled exactly mini_batches.size sequences, in both cases less the dropped
// ones, but never nothing.
absl::Status CheckMiniBatches(const PlacedPass& placed);

// Internal if members of a group are further apart than the policy allows.
absl::Status CheckGroups(const PlacedPass& placed);

// Internal if ranks have different numbers of sequences in a mini-batch, less the dropped ones,
// although the first pass, which fixes the ranks, asked for equal ones.
absl::Status CheckEqualCounts(const PlacedPass& placed);

// Internal if `later` has a sequence on another rank than `first`, or, where both respect
// mini-batches, in another mini-batch.
absl::Status CheckSameRanks(const PlacedPass& first, const PlacedPass& later);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_MINI_BATCHES_H_
