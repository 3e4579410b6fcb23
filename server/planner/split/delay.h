// Mini-batches whose sequences may be trained some mini-batches from their place.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {

// What a mini-batch of these sequences could take.
using StepTimeOf = absl::FunctionRef<double(std::span<const SequenceIndex>)>;

// `mini_batches` with sequences, or groups where there are any, exchanged for others of as many
// sequences within windows of max_delay + 1 mini-batches, one window after the other, so that none
// is further than max_delay from its place. Long ones come together, as few as make the window
// shortest by `time`; within a mini-batch, sequences stand in the manifest's order. What is not
// worth a thousandth of the window's time stays. At most eight times as many evaluations as there
// are mini-batches, and none once the allowance is spent, of which `time` takes what it costs. Once
// a stop is requested it ends soon, with what is of no use.
//
// Source: WLB-LLM (OSDI '25), which puts off long documents until there are enough of them.
SequenceLists DelayLong(const SequenceLists& mini_batches, const Groups& groups,
                        std::span<const uint32_t> lengths, uint32_t max_delay,
                        const StepTimeOf& time, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_
