// Which waiting units get the free seats of a batch.

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

// An estimate of predicted over ideal step time for a batch of these sequences, which ascend. If it
// is at least `enough`, any number from that to it will do.
using StepRatio = absl::FunctionRef<double(std::span<const SequenceIndex>, double enough)>;

// At most `most` choices of open units for the free seats, the most promising first, each as
// ascending positions in open(). All differ from each other and from first in, first out, and have
// a `ratio` below `to_beat`.
//
// Similar units are put together. The open units are ordered by their cost, and by their longest
// sequence. The seats go to a run of such an order, or some to one of its ends and the rest to the
// units that came first. Exchanges of units then improve the best choice. `ratio` is called at most
// `evaluations` times beside once for first in, first out. Deterministic. Once a stop is requested
// it ends soon with a useless result.
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
