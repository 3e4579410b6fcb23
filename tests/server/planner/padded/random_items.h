// Random inputs for the algorithms of the padded layout, and the tokens and costs of splits.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_PADDED_RANDOM_ITEMS_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_PADDED_RANDOM_ITEMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/padded/splits.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

struct RandomItems {
  std::vector<uint32_t> widths;
  std::vector<uint32_t> counts;  // empty for half of the seeds
  PaddedLimits limits;           // every item fits alone

  RandomItems(RandomStream& random, size_t most) : widths(random.Between(1, most)) {
    const auto widest = random.OneOf<uint32_t>({3, 20, 200});
    for (uint32_t& width : widths) width = static_cast<uint32_t>(random.Between(1, widest));
    std::sort(widths.begin(), widths.end());
    if (random.Chance(50)) {
      for (size_t i = 0; i < widths.size(); ++i) {
        counts.push_back(static_cast<uint32_t>(random.Between(1, 4)));
      }
    }
    uint64_t needed = 0;
    uint64_t largest = 1;
    for (size_t i = 0; i < widths.size(); ++i) {
      needed = std::max(needed, uint64_t{view().count(i)} * widths[i]);
      largest = std::max<uint64_t>(largest, view().count(i));
    }
    limits.tokens = needed + random.Between(0, 3 * needed);
    if (random.Chance(30)) limits.sequences = largest + random.Between(0, 5);
  }

  PaddedItems view() const { return {widths, counts}; }
};

inline uint64_t SequencesOf(const PaddedItems& items, size_t begin, size_t end) {
  uint64_t sequences = 0;
  for (size_t i = begin; i < end; ++i) sequences += items.count(i);
  return sequences;
}

// Whether `cuts` splits all items into nonempty runs that keep the limits.
inline bool IsSplit(const Cuts& cuts, const PaddedItems& items, const PaddedLimits& limits) {
  if (cuts.empty() || cuts.front() != 0 || cuts.back() != items.size()) return false;
  for (size_t m = 0; m + 1 < cuts.size(); ++m) {
    if (cuts[m] >= cuts[m + 1]) return false;
    if (!limits.Allow(SequencesOf(items, cuts[m], cuts[m + 1]), items.widths[cuts[m + 1] - 1])) {
      return false;
    }
    for (const RunLoad& load : items.loads) {
      double sum = 0;
      for (size_t i = cuts[m]; i < cuts[m + 1]; ++i) sum += load.Of(i, i + 1);
      if (sum > load.most() * (1 + 1e-12)) return false;
    }
  }
  return true;
}

// The sum of sequences times width over all runs.
inline uint64_t TokensOf(const Cuts& cuts, const PaddedItems& items) {
  uint64_t tokens = 0;
  for (size_t m = 0; m + 1 < cuts.size(); ++m) {
    tokens += SequencesOf(items, cuts[m], cuts[m + 1]) * items.widths[cuts[m + 1] - 1];
  }
  return tokens;
}

// The cost of a sequence of each width, ascending.
inline std::vector<uint64_t> CostsOf(const RandomItems& items, uint64_t per_token_squared) {
  std::vector<uint64_t> costs;
  for (const uint64_t width : items.widths) {
    costs.push_back(20 * width + per_token_squared * width * width);
  }
  return costs;
}

// Every split of the items within the limits. O(2^n).
inline std::vector<Cuts> AllSplits(const PaddedItems& items, const PaddedLimits& limits) {
  std::vector<Cuts> splits;
  const auto count = static_cast<uint32_t>(items.size());
  for (uint32_t closed = 0; closed < uint32_t{1} << (count - 1); ++closed) {
    Cuts cuts = {0};
    for (uint32_t i = 1; i < count; ++i) {
      if ((closed >> (i - 1) & 1) != 0) cuts.push_back(i);
    }
    cuts.push_back(count);
    if (IsSplit(cuts, items, limits)) splits.push_back(std::move(cuts));
  }
  return splits;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_PADDED_RANDOM_ITEMS_H_
