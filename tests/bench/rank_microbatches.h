// The micro-batches of a plan by rank, as judges and reference systems have them.

#ifndef BATCHPLAN_TESTS_BENCH_RANK_MICROBATCHES_H_
#define BATCHPLAN_TESTS_BENCH_RANK_MICROBATCHES_H_

#include <cstddef>
#include <cstdint>

#include "server/planner/plan.h"
#include "tests/support/reference_systems.h"

namespace batchplan::bench {

// For a pass with one mini-batch.
inline testing::RankMicrobatches MicrobatchesOf(const PassPlan& pass, uint32_t ranks) {
  testing::RankMicrobatches plan(ranks);
  size_t m = 0;
  for (auto& rank : plan) {
    for (uint32_t slot = 0; slot < pass.microbatches_per_rank[0]; ++slot, ++m) {
      const auto sequences = pass.sequence_index.begin();
      rank.emplace_back(sequences + pass.microbatch_offsets[m],
                        sequences + pass.microbatch_offsets[m + 1]);
    }
  }
  return plan;
}

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_RANK_MICROBATCHES_H_
