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

// Choices of open units for the free seats, each as ascending positions in open(), the most
// promising first. There are at most `most`, all different; none is first in, first out, and the
// `ratio` of each is below `to_beat`.
//
// Like units are put together. The open units are ordered by their cost, and by their longest
// sequence. Seats go to a run of such an order, or some to one of its ends and the others to the
// units that came first. The best choice is then improved by exchanging units. `ratio` is called at
// most `evaluations` times beside once for first in, first out. Deterministic. Once a stop is
// requested it ends soon, and the result is of no use.
//
// Why: where only long sequences make ranks wait, one step with many of them and one with none are
// both better than two with some.
std::vector<std::vector<uint32_t>> Choices(const WaitingPool& pool,
                                           std::span<const double> unit_costs,
                                           std::span<const double> unit_longest,
                                           const StepRatio& ratio, double to_beat,
                                           uint64_t evaluations, size_t most,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_CHOICE_H_
