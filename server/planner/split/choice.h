// Who gets the free seats of a batch.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_CHOICE_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_CHOICE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/split/waiting_pool.h"

namespace batchplan {

// How good a batch of these sequences, ascending, could be: predicted over ideal step time.
using StepRatio = absl::FunctionRef<double(std::span<const SequenceIndex>)>;

// Choices of the pool's open units for its seats, positions in open(), ascending, the most
// promising first: at most `most`, which differ, none of them first in, first out, and each below
// `to_beat` by `ratio`. Like units meet: the open ones are ordered by what they cost, or by their
// longest sequence, and seats go to a run of that order, or some of them to its ends and the others
// to who came first; the best is then improved by exchanging units. `evaluations` of the ratio at
// most. Deterministic. Once a stop is requested it ends soon, with what is of no use.
//
// Where long sequences alone make ranks wait, a step of many and a step of none are both better
// than two of some.
std::vector<std::vector<uint32_t>> Choices(const WaitingPool& pool,
                                           std::span<const double> unit_costs,
                                           std::span<const double> unit_longest,
                                           const StepRatio& ratio, double to_beat,
                                           uint64_t evaluations, size_t most,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_CHOICE_H_
