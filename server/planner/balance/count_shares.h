// Micro-batches to ranks such that every rank has as many sequences.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_COUNT_SHARES_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_COUNT_SHARES_H_

#include <optional>

#include "server/planner/balance/filling.h"

namespace batchplan {

// `filling` with its bins renumbered, slot s of rank r as r * slots + s, each slot's bins, which
// are alike in cost, going where sequences are wanted most; what differs then is mended by moving
// the cheapest sequences. Nothing if the limits leave no room for these. Every item is one
// sequence, and the ranks divide them.
std::optional<Filling> ShareCountsEqually(const Filling& filling);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_COUNT_SHARES_H_
