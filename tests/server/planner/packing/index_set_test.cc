#include "server/planner/packing/index_set.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <set>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

TEST(IndexSetTest, FindsTheNeighboursThatAnOrderedSetFinds) {
  for (const uint64_t seed : testing::Seeds(300)) {
    testing::RandomStream random(seed);
    const size_t bound = random.OneOf<size_t>({1, 2, 63, 64, 65, 4095, 4096, 4097, 300000});
    IndexSet set(bound);
    std::set<size_t> reference;
    for (int step = 0; step < 300; ++step) {
      // Indexes near one another, near the ends, or anywhere.
      const size_t index = random.Between(0, random.Chance(50) ? bound - 1 : (bound - 1) / 100);
      if (random.Chance(55)) {
        set.Insert(index);
        reference.insert(index);
      } else {
        set.Erase(index);
        reference.erase(index);
      }
      const size_t from = random.Chance(20) ? bound - 1 : random.Between(0, bound - 1);
      const auto next = reference.lower_bound(from);
      const auto after = reference.upper_bound(from);
      ASSERT_EQ(set.Contains(index), reference.contains(index)) << "seed " << seed;
      ASSERT_EQ(set.AtLeast(from), next == reference.end() ? IndexSet::kNone : *next)
          << "seed " << seed;
      ASSERT_EQ(set.AtMost(from), after == reference.begin() ? IndexSet::kNone : *std::prev(after))
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace batchplan
