// Batches whose sequences begin alike, planned by whole groups.

#ifndef BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_
#define BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_

#include <cstdint>

#include "server/planner/request/options.h"
#include "tests/bench/prefix_tree.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// Every group in one micro-batch, or where the budget forces it, cut into as few runs of leaves as
// it takes, the largest as small as possible; then balanced by the planner's own search for items,
// at DEFAULT. Every sequence fits the budget.
testing::RankMicrobatches GroupsTogether(const PrefixTree& tree, uint32_t budget, uint32_t ranks,
                                         Synchronization synchronization);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_
