#include "tests/bench/prefix_judge.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace batchplan::bench {

PrefixJudge::PrefixJudge(const PrefixBatch& batch) : tokens_(batch.lengths.size()) {
  uint32_t numbered = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (batch.shared_prefixes[i] > 0) {
      const std::vector<uint32_t>& with = tokens_[batch.shared_with[i]];
      tokens_[i].assign(with.begin(), with.begin() + batch.shared_prefixes[i]);
    }
    while (tokens_[i].size() < batch.lengths[i]) tokens_[i].push_back(numbered++);
  }
  last_.resize(numbered, 0);
}

StepTimes PrefixJudge::Judge(const testing::RankMicrobatches& plan, uint32_t budget, bool shared) {
  StepTimes times;
  std::vector<uint64_t> slots(plan[0].size(), 0);
  std::vector<uint32_t> planned(tokens_.size(), 0);
  for (const auto& rank : plan) {
    uint64_t of_rank = 0;
    if (rank.size() != slots.size()) planned[0] = 2;
    for (size_t slot = 0; slot < rank.size(); ++slot) {
      ++microbatch_;
      uint64_t laid = 0;
      uint64_t cost = 0;
      for (const uint32_t sequence : rank[slot]) {
        ++planned[sequence];
        for (uint64_t depth = 0; depth < tokens_[sequence].size(); ++depth) {
          uint64_t& last = last_[tokens_[sequence][depth]];
          if (shared && last == microbatch_) continue;
          last = microbatch_;
          ++laid;
          // The first d tokens cost 24576 d + d^2.
          cost += 24576 + 2 * depth + 1;
        }
      }
      times.over_budget += laid > budget;
      slots[slot] = std::max(slots[slot], cost);
      of_rank += cost;
    }
    times.accumulated = std::max(times.accumulated, of_rank);
  }
  times.lockstep = std::accumulate(slots.begin(), slots.end(), uint64_t{0});
  if (std::ranges::any_of(planned, [](uint32_t copies) { return copies != 1; })) {
    std::fprintf(stderr, "a plan does not have every sequence once\n");
    std::abort();
  }
  return times;
}

}  // namespace batchplan::bench
