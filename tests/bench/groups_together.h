// Plans of batches whose sequences begin alike, by whole groups.

#ifndef BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_
#define BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_

#include <cstdint>

#include "server/planner/request/options.h"
#include "tests/bench/prefix_tree.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// Puts every group into one micro-batch. If the budget forces it, cuts a group into as few runs of
// leaves as possible, with the largest as small as possible. Then balances them by the planner's
// own search for items, at DEFAULT. If there are fewer pieces than micro-batches, some of these
// stay empty, or else the costliest pieces are cut again. Every sequence must fit the budget, and
// there must be at least as many sequences as micro-batches.
testing::RankMicrobatches GroupsTogether(const PrefixTree& tree, uint32_t budget, uint32_t ranks,
                                         Synchronization synchronization, bool may_be_empty);

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_GROUPS_TOGETHER_H_
