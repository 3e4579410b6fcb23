// What a sequence costs each of the ranks that share it: the checker's own reading of the cost
// model.

#ifndef BATCHPLAN_SERVER_CHECKER_SEQUENCE_COST_H_
#define BATCHPLAN_SERVER_CHECKER_SEQUENCE_COST_H_

#include "server/planner/request/options.h"

namespace batchplan::checker {

// What `linear` tokens, and attention over pairs of tokens `squared`, cost each of `ranks` ranks.
double SharedCost(const CostModel& model, double linear, double squared, double ranks);

// A sequence of an aligned length, without and with the exchange of keys and values. Of its first
// `shared` tokens another has the cost, though the later ones attend to them.
double ComputationCost(const CostModel& model, double length, double ranks);
double SequenceCost(const CostModel& model, double length, double shared, double ranks);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_SEQUENCE_COST_H_
