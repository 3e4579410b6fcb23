// Batches whose sequences begin alike, as reinforcement learning makes them.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_BATCHES_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"

namespace batchplan::bench {

// The arrays of a manifest, one entry a sequence each. The sequences of a group follow each other.
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

// Batches of one kind, and the token budget that they are planned for, which holds every sequence.
struct PrefixFamily {
  absl::string_view name;
  // So many sequences, from a seed; groups of so many, where groups have one size; the budget.
  PrefixBatch (*make)(size_t sequences, size_t group, uint32_t budget, uint64_t seed);
  size_t sequences;
  size_t group;
  uint32_t budget;

  PrefixBatch Make(uint64_t seed) const { return make(sequences, group, budget, seed); }
};

// GRPO's stars of 8 and 16 answers: maths and long chains of thought on short prompts, short
// answers on prompts of some 8,000 and 30,000 tokens. Agents' trees, in which a turn's sequence
// holds the history without earlier turns' reasoning, all under one system prompt. Searches' binary
// trees.
std::span<const PrefixFamily> PrefixFamilies();

// The data-parallel ranks that each family is planned for.
inline constexpr uint32_t kPrefixRanks[] = {8, 16, 32};

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_BATCHES_H_
