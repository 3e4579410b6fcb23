// Batches whose sequences begin alike, like those of reinforcement learning.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_BATCHES_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"

namespace batchplan::bench {

// The arrays of a manifest, with one entry for each sequence. Groups are consecutive.
struct PrefixBatch {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> group_ids;
  std::vector<uint32_t> shared_prefixes;
  std::vector<uint32_t> shared_with;

  // Views the arrays.
  Manifest manifest() const {
    return {.lengths = lengths,
            .group_ids = group_ids,
            .shared_prefixes = shared_prefixes,
            .shared_with = shared_with};
  }
};

// Batches of one kind, with the token budget to plan them for. Every sequence fits the budget.
struct PrefixFamily {
  absl::string_view name;
  // Makes `sequences` sequences from a seed; `group` is the size of groups if that is fixed.
  PrefixBatch (*make)(size_t sequences, size_t group, uint32_t budget, uint64_t seed);
  size_t sequences;
  size_t group;
  uint32_t budget;

  PrefixBatch Make(uint64_t seed) const { return make(sequences, group, budget, seed); }
};

// GRPO's stars of 8 and 16 answers: mathematics and long chains of thought on short prompts, and
// short answers on prompts of about 8,000 and 30,000 tokens. Trees of agents under one system
// prompt, where a turn's sequence has the history without earlier reasoning. Binary trees of
// searches.
std::span<const PrefixFamily> PrefixFamilies();

// How many data-parallel ranks each family is planned for.
inline constexpr uint32_t kPrefixRanks[] = {8, 16, 32};

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_BATCHES_H_
