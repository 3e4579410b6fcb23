// Local search for the least lockstep step time.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_EVEN_OUT_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_EVEN_OUT_H_

#include <cstdint>

#include "server/planner/allowance.h"
#include "server/planner/balance/filling.h"

namespace batchplan {

// Which items may change their rank. Where ranks matter, bins r * slots .. (r + 1) * slots - 1 are
// those of rank r.
enum class RankRule {
  kFree,
  // A rank keeps its number of sequences.
  kEqualCounts,
  // No item leaves its rank.
  kFixed,
};

struct EvenOutOptions {
  // Stop at this step time.
  uint64_t enough = 0;
  // Exchanges looked at.
  uint64_t steps = 0;
  // Givers that find nothing at a receiver before it is left out until it changes.
  uint32_t patience = 4;
  // Whether one item may be exchanged for two, once nothing simpler helps.
  bool pairs = false;
  RankRule ranks = RankRule::kFree;
  // Once it is spent or a stop requested, the search ends early.
  Allowance allowance = {};
};

// Lowers the sum over slots of the costliest bin, bins being sorted by cost, all together or those
// of each rank by themselves if ranks matter, by moves and exchanges of items between bins, all of
// which stay within their limits and none of which becomes empty. Every slot has a target, its mean
// or its costliest item if that is more; the bin furthest over its target gives to those furthest
// under theirs, what brings the two closest together. Slots are formed anew after each round, and
// the best filling met is kept. Returns its step time.
uint64_t EvenOut(const EvenOutOptions& options, Filling& filling);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_EVEN_OUT_H_
