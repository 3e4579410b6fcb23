// A pass over a random forest of sequences, with everything that it views.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_ROWS_FOREST_PASS_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_ROWS_FOREST_PASS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/request/shared_prefixes.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

struct ForestPass {
  // A sequence with prefix 0 begins a tree.
  ForestPass(std::vector<uint32_t> its_lengths, std::vector<uint32_t> its_prefixes,
             std::vector<uint32_t> its_with, uint32_t ranks, uint32_t budget,
             Sharding sharding = Sharding::kBalanced, std::vector<uint32_t> its_groups = {})
      : lengths(std::move(its_lengths)),
        prefixes(std::move(its_prefixes)),
        with(std::move(its_with)),
        group_ids(std::move(its_groups)),
        manifest{.lengths = lengths,
                 .group_ids = group_ids,
                 .shared_prefixes = prefixes,
                 .shared_with = with},
        planned{.lengths = lengths, .excluded = {}},
        alignments(planned.lengths),
        groups(manifest, GroupPolicy::kIgnore),
        shared(manifest) {
    options.topology.data_parallel = ranks;
    PassOptions& of_pass = options.passes.emplace_back();
    of_pass.max_tokens_per_microbatch = budget;
    of_pass.sharding = sharding;
    for (uint32_t i = 0; i < lengths.size(); ++i) sequences.emplace_back(i);
  }
  ForestPass(const ForestPass&) = delete;
  ForestPass& operator=(const ForestPass&) = delete;

  Pass Create() {
    return *Pass::Create(manifest, options, 0,
                         {{.capacity = options.passes[0].max_tokens_per_microbatch}}, planned,
                         alignments, groups, 1, {}, shared);
  }

  const std::vector<uint32_t> lengths;
  const std::vector<uint32_t> prefixes;
  const std::vector<uint32_t> with;
  const std::vector<uint32_t> group_ids;
  const Manifest manifest;
  const PlannedLengths planned;
  Alignments alignments;
  const Groups groups;
  const SharedPrefixes shared;
  PlanOptions options;
  std::vector<SequenceIndex> sequences;
};

// Up to 60 sequences of up to 400 tokens, most of which share with an earlier one.
inline ForestPass RandomForest(uint64_t seed) {
  RandomStream random(seed);
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> prefixes;
  std::vector<uint32_t> with;
  for (uint64_t i = 0, count = random.Between(2, 60); i < count; ++i) {
    lengths.push_back(static_cast<uint32_t>(random.Between(1, 400)));
    const bool shares = i > 0 && random.Chance(80);
    with.push_back(shares ? static_cast<uint32_t>(random.Between(0, i - 1)) : 0);
    const uint32_t most = shares ? std::min(lengths[i], lengths[with[i]]) : 0;
    prefixes.push_back(random.Chance(10) ? most : static_cast<uint32_t>(random.Between(0, most)));
  }
  const auto ranks = static_cast<uint32_t>(random.Between(1, 4));
  return {std::move(lengths), std::move(prefixes), std::move(with), ranks,
          static_cast<uint32_t>(random.Between(400, 1500))};
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_ROWS_FOREST_PASS_H_
