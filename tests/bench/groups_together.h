// Batches whose sequences begin alike, planned by whole groups.

#ifndef BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_
#define BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_

#include <cstdint>

#include "server/planner/request/options.h"
#include "tests/bench/prefix_tree.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// Every group in one micro-batch, or where the budget forces it, cut into as few runs of leaves as
// it takes, the largest as small as possible. Then balanced by the planner's own search for items,
// at DEFAULT. Where there are fewer pieces than micro-batches, some of these stay empty, or else
// the costliest pieces are cut again. Every sequence fits the budget, and there are as many as
// micro-batches.
testing::RankMicrobatches GroupsTogether(const PrefixTree& tree, uint32_t budget, uint32_t ranks,
                                         Synchronization synchronization, bool may_be_empty);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_
