#include "server/planner/balance/deal_bins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::RandomStream;

TEST(DealBinsTest, EachBinIsDealtOnceAndSlotsAreRunsOfTheSortedOrder) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const auto ranks = static_cast<uint32_t>(random.Between(1, 8));
    const size_t slots = random.Between(1, 10);
    const size_t bins = random.Between(ranks * (slots - 1) + 1, ranks * slots);
    std::vector<uint64_t> loads(bins);
    for (uint64_t& load : loads) load = random.Between(0, random.OneOf<uint64_t>({0, 9, 100000}));
    const std::vector<uint32_t> bin_at = DealBins(loads, ranks, slots);
    std::vector<uint32_t> dealt = bin_at;
    std::sort(dealt.begin(), dealt.end());
    ASSERT_EQ(dealt.size(), ranks * slots);
    for (uint32_t place = 0; place < bins; ++place) ASSERT_EQ(dealt[place], place);
    ASSERT_TRUE(dealt.size() == bins || dealt[bins] >= bins);

    loads.resize(ranks * slots, 0);
    std::vector<uint64_t> load_at;
    for (uint32_t bin : bin_at) load_at.push_back(bin < bins ? loads[bin] : 0);
    ASSERT_EQ(testing::LockstepTime(load_at, ranks), testing::DealtLockstepTime(loads, ranks));
    // An empty bin is in the last slot.
    for (size_t place = 0; place < bin_at.size(); ++place) {
      if (bin_at[place] >= bins) {
        ASSERT_EQ(place % slots, slots - 1);
      }
    }
  }
}

TEST(DealBinsTest, TheHeaviestOfASlotGoesToTheRankThatHasHadLeast) {
  EXPECT_THAT(DealBins(std::vector<uint64_t>{9, 5, 4, 1}, 2, 2), ElementsAre(0, 3, 1, 2));
}

}  // namespace
}  // namespace batchplan
