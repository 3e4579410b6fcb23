// Shardings that fix the rank of every sequence keep their rule, whatever else the request asks
// for.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/checked_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

struct Planned {
  uint32_t rank = 0;
  uint32_t length = 0;
};

// Keyed by manifest position; dropped sequences are left out.
std::map<uint32_t, Planned> PlannedSequences(const PassPlan& pass, uint32_t ranks) {
  std::map<uint32_t, Planned> planned;
  size_t microbatch = 0;
  for (uint32_t slots : pass.microbatches_per_rank) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (uint32_t slot = 0; slot < slots; ++slot, ++microbatch) {
        for (uint32_t at = pass.microbatch_offsets[microbatch];
             at < pass.microbatch_offsets[microbatch + 1]; ++at) {
          planned[pass.sequence_index[at]] = {.rank = rank, .length = pass.sequence_lengths[at]};
        }
      }
    }
  }
  return planned;
}

// The sequences of each mini-batch in the manifest's order; a single one if no pass has
// mini-batches.
std::vector<std::vector<uint32_t>> MiniBatches(const testing::GeneratedRequest& request,
                                               const std::map<uint32_t, Planned>& planned) {
  const bool whole = std::ranges::all_of(
      request.options.passes, [](const PassOptions& pass) { return pass.ignore_mini_batches; });
  const uint32_t size = whole || request.options.mini_batches.size == 0
                            ? std::numeric_limits<uint32_t>::max()
                            : request.options.mini_batches.size;
  std::vector<std::vector<uint32_t>> mini_batches;
  for (const auto& [sequence, where] : planned) {
    mini_batches.resize(std::max<size_t>(mini_batches.size(), sequence / size + 1));
    mini_batches[sequence / size].push_back(sequence);
  }
  return mini_batches;
}

// Calls check(ranks, planned, mini_batch) for every mini-batch of random requests of that sharding
// without groups.
template <typename Check>
void ForEachMiniBatch(Sharding sharding, Check check) {
  uint64_t checked = 0;
  for (const uint64_t seed : testing::Seeds(2000)) {
    testing::GeneratedRequest request = testing::GenerateRequest(seed);
    PlanOptions& options = request.options;
    if (options.passes[0].sharding != sharding) continue;
    options.mini_batches.order = Order::kPreserved;
    options.mini_batches.groups = GroupPolicy::kIgnore;
    options.mini_batches.group_count = 0;
    const auto plan = testing::MakeCheckedPlan(request.manifest(), options);
    if (!plan.ok()) continue;
    const uint32_t ranks = options.topology.data_parallel;
    const std::map<uint32_t, Planned> planned = PlannedSequences(plan->passes[0], ranks);
    for (const std::vector<uint32_t>& mini_batch : MiniBatches(request, planned)) {
      ++checked;
      check(ranks, planned, mini_batch);
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << request.Describe();
    }
  }
  EXPECT_GT(checked, testing::Cases(100));
}

TEST(ShardingTest, StrideSortedDealsTheSortedSequencesInTurn) {
  ForEachMiniBatch(Sharding::kStrideSorted,
                   [](uint32_t ranks, const std::map<uint32_t, Planned>& planned,
                      const std::vector<uint32_t>& mini_batch) {
                     std::vector<std::pair<uint32_t, uint32_t>> sorted;  // (length, sequence)
                     for (uint32_t sequence : mini_batch) {
                       sorted.emplace_back(planned.at(sequence).length, sequence);
                     }
                     std::sort(sorted.begin(), sorted.end());
                     for (size_t i = 0; i < sorted.size(); ++i) {
                       ASSERT_EQ(planned.at(sorted[i].second).rank, i % ranks);
                     }
                   });
}

TEST(ShardingTest, ContiguousGivesEveryRankOneRunOfTheMiniBatch) {
  ForEachMiniBatch(Sharding::kContiguous, [](uint32_t, const std::map<uint32_t, Planned>& planned,
                                             const std::vector<uint32_t>& mini_batch) {
    for (size_t i = 1; i < mini_batch.size(); ++i) {
      ASSERT_LE(planned.at(mini_batch[i - 1]).rank, planned.at(mini_batch[i]).rank);
    }
  });
}

}  // namespace
}  // namespace batchplan
