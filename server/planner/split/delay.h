// Moves sequences to other mini-batches near their own (MiniBatching.max_delay).

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {

// An estimate of the time of a mini-batch of these sequences.
using StepTimeOf = absl::FunctionRef<double(std::span<const SequenceIndex>)>;

struct DelayTerms {
  // By how many mini-batches a sequence, or a group, may move.
  uint32_t max_delay = 0;
  // Whether a group may change places with one of another size.
  bool any_size = false;
};

// Exchanges units between mini-batches: sequences, or whole groups if there are any, which are
// exchanged for groups of the same size, or of any if the terms allow it. Exchanges stay within
// windows of max_delay + 1 mini-batches, one window after the other, so that nothing moves by more
// than max_delay. Long units are gathered, as few as make the window's `time` shortest, and only if
// that gains a thousandth of it. In a window that changes, the sequences of a mini-batch are in the
// manifest's order.
//
// Calls `time`, which spends from the allowance, at most eight times for each mini-batch. Once the
// allowance is spent nothing more is moved. Once a stop is requested it ends soon with a useless
// result.
//
// Source: WLB-LLM (OSDI '25), which puts off long documents until there are enough of them.
SequenceLists DelayLong(const SequenceLists& mini_batches, const Groups& groups,
                        std::span<const uint32_t> lengths, const DelayTerms& terms,
                        const StepTimeOf& time, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_
