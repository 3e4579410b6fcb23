// Promise 9: micro-batches have no more of a load than they may, what is dealt is where the rule
// puts it, and slots have the kinds of sequences that may run at the same time.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_LOADS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_LOADS_H_

#include "absl/status/status.h"
#include "server/checker/check_sequences.h"

namespace batchplan::checker {

// Internal if item_ranks does not have one entry for each dealt load, in the order of the cost
// model, which gives each item of a planned sequence the rank that the deal of its slot does, and
// all others 0; if a micro-batch, or of a dealt load a rank in a slot, has more than a limit of the
// pass, but for what sequences have that are listed as alone, are alone in their micro-batch, and
// exceed it by themselves; or if a slot has kinds of sequences beside each other, or empty
// micro-batches beside kinds other than 0, that kinds_per_slot keeps apart.
absl::Status CheckLoads(const PlacedPass& placed);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_LOADS_H_
