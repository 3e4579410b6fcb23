// Promise 9: micro-batches keep their limits on loads, dealt items are where the rule puts them,
// and slots keep the rule on kinds.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_LOADS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_LOADS_H_

#include "absl/status/status.h"
#include "server/checker/check_sequences.h"

namespace batchplan::checker {

// Internal in three cases. (1) item_ranks does not have one entry for each dealt load, in the order
// of the cost model, or it does not give each item of a planned sequence its rank in the deal of
// its slot, and all other items 0. (2) A micro-batch, or for a dealt load a rank in a slot, exceeds
// a limit of the pass; not counted are sequences that are listed as alone, are alone in their
// micro-batch, and exceed the limit by themselves. (3) A slot has kinds beside each other, or empty
// micro-batches beside kinds other than 0, that kinds_per_slot keeps apart.
absl::Status CheckLoads(const PlacedPass& placed);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_LOADS_H_
