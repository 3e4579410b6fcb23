// Trainers' planners for sequences that begin alike, written anew from their rules. Where an
// original exceeds the token budget or gives ranks different numbers of micro-batches, these do
// not.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_SYSTEMS_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_SYSTEMS_H_

#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"
#include "tests/bench/prefix_tree.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

struct PrefixSystem {
  absl::string_view name;
  testing::RankMicrobatches (*plan)(const PrefixTree& tree, uint32_t budget, uint32_t ranks);
};

std::span<const PrefixSystem> PrefixSystems();

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_SYSTEMS_H_
