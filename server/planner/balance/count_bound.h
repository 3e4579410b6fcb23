// Lower bounds on the step time of a mini-batch if micro-batches can't be empty: each has
// sequences, even where a plan with fewer or empty micro-batches would be shorter.
//
// A micro-batch costs at least the sum over its sequences. The fixed cost of a micro-batch is left
// out; the caller adds it.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_COUNT_BOUND_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_COUNT_BOUND_H_

#include <cstdint>
#include <vector>

namespace batchplan {

// What a mini-batch has at least.
struct LeastCounts {
  // Slots, each of one micro-batch on every rank.
  uint64_t slots = 0;
  // Sequences in a micro-batch; 0: it may be empty.
  uint64_t in_microbatch = 0;
  // Sequences on a rank, where that is more than its micro-batches have together.
  uint64_t on_rank = 0;
};

// A lower bound on the sum over slots of the maximum over ranks of a micro-batch's cost; 0 if there
// are too few sequences. `costs` are those of all sequences, in any order, with a sum below 2^63.
// The proof is in the source. O(n), and O(n log n) if the bound may be above `proven`; below that
// any value.
uint64_t LockstepCountBound(const std::vector<uint64_t>& costs, uint32_t ranks,
                            const LeastCounts& least, uint64_t proven = 0);

// The same of the maximum over ranks of the sum of its costs. O(n).
uint64_t AccumulatedCountBound(const std::vector<uint64_t>& costs, const LeastCounts& least,
                               uint64_t proven = 0);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_COUNT_BOUND_H_
