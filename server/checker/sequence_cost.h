// The cost of a sequence for each rank that shares it: the checker's own reading of the cost model.

#ifndef BATCHPLAN_SERVER_CHECKER_SEQUENCE_COST_H_
#define BATCHPLAN_SERVER_CHECKER_SEQUENCE_COST_H_

#include "server/planner/request/options.h"

namespace batchplan::checker {

// The cost of `linear` tokens, and of attention over `squared` pairs of tokens, for each of `ranks`
// ranks.
double SharedCost(const CostModel& model, double linear, double squared, double ranks);

// The cost of a sequence of an aligned length, without and with the exchange of keys and values.
// Its first `shared` tokens are at another sequence's cost, though later tokens attend to them.
double ComputationCost(const CostModel& model, double length, double ranks);
double SequenceCost(const CostModel& model, double length, double shared, double ranks);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_SEQUENCE_COST_H_
