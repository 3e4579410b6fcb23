// What every packing must satisfy.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_PACKING_EXPECT_PACKED_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_PACKING_EXPECT_PACKED_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/kinds.h"

namespace batchplan {

// Every item is there once, within both limits, and no bin is empty.
inline void ExpectPacked(const Bins& bins, const PackItems& items, const BinLimits& limits) {
  std::vector<int> times(items.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    ASSERT_FALSE(bins[bin].empty());
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    for (uint32_t item : bins[bin]) {
      ASSERT_LT(item, items.size());
      ++times[item];
      tokens += items.lengths[item];
      sequences += items.count(item);
    }
    ASSERT_LE(tokens, limits.capacity);
    ASSERT_LE(sequences, limits.max_sequences);
  }
  ASSERT_EQ(times, std::vector<int>(items.size(), 1));
}

// The same for bins of items of several kinds.
inline void ExpectPacked(const Bins& bins, const Kinds& kinds) {
  std::vector<uint32_t> packed(kinds.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    ASSERT_FALSE(bins[bin].empty());
    uint64_t tokens = 0;
    for (uint32_t kind : bins[bin]) {
      ASSERT_LT(kind, kinds.size());
      ++packed[kind];
      tokens += kinds.lengths[kind];
    }
    ASSERT_LE(tokens, kinds.capacity);
  }
  ASSERT_EQ(packed, kinds.demand);
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_PACKING_EXPECT_PACKED_H_
