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

// How long a mini-batch of these sequences could run.
using StepTimeOf = absl::FunctionRef<double(std::span<const SequenceIndex>)>;

struct DelayTerms {
  // Mini-batches from its place that a sequence, or group, may be trained.
  uint32_t max_delay = 0;
  // Whether a group may take the place of one of another number of sequences.
  bool any_size = false;
};

// Exchanges sequences between mini-batches, or whole groups if there are any, each for one of as
// many sequences, or of any number where the terms allow it. Exchanges stay within windows of
// max_delay + 1 mini-batches, one window after the other, so that nothing is further than max_delay
// from its place. Long units are gathered, as few as make the window's `time` shortest, and only if
// that gains a thousandth of it. In a window that changes, the sequences of a mini-batch stand in
// the manifest's order.
//
// Calls `time`, which spends from the allowance, at most eight times for each mini-batch. Once the
// allowance is spent nothing more is moved. Once a stop is requested it ends soon, and the result
// is of no use.
//
// Source: WLB-LLM (OSDI '25), which puts off long documents until there are enough of them.
SequenceLists DelayLong(const SequenceLists& mini_batches, const Groups& groups,
                        std::span<const uint32_t> lengths, const DelayTerms& terms,
                        const StepTimeOf& time, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_DELAY_H_
