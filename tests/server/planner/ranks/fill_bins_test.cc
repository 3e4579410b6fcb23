#include "server/planner/ranks/fill_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace batchplan {
namespace {

// Items whose costs are their lengths.
struct LinearItems {
  explicit LinearItems(std::vector<uint32_t> l) : lengths(std::move(l)) {
    costs.assign(lengths.begin(), lengths.end());
  }
  Items items() const {
    return {.sequences = {}, .lengths = lengths, .counts = {}, .costs = costs};
  }

  std::vector<uint32_t> lengths;
  std::vector<Cost> costs;
};

std::vector<uint64_t> SortedSums(const Bins& bins, const LinearItems& data) {
  std::vector<uint64_t> sums;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    uint64_t sum = 0;
    for (uint32_t item : bins[bin]) sum += data.lengths[item];
    sums.push_back(sum);
  }
  std::sort(sums.begin(), sums.end());
  return sums;
}

TEST(SplitToCountTest, EnoughBinsStayAsTheyAre) {
  const LinearItems data({4, 6, 5});
  Bins bins;
  bins.Add(std::vector<uint32_t>{0, 1});
  bins.Add(std::vector<uint32_t>{2});
  EXPECT_EQ(SplitToCount(bins, 2, 2, data.items(), {.capacity = 10}).size(), 2);
}

TEST(SplitToCountTest, SplittingKeepsBalanceWhereMovingSingleSequencesWrecksIt) {
  // NeMo-RL turns [[9], [2,2,2,2,2]] at target 4 into loads 2, 2, 6 and 9.
  const LinearItems data({2, 2, 2, 2, 2, 9});
  Bins bins;
  bins.Add(std::vector<uint32_t>{5});
  bins.Add(std::vector<uint32_t>{0, 1, 2, 3, 4});
  const Bins split = SplitToCount(bins, 4, 4, data.items(), {.capacity = 10});
  EXPECT_EQ(SortedSums(split, data), (std::vector<uint64_t>{2, 4, 4, 9}));
}

TEST(SplitToCountTest, FullBinsStayFullAndThinOnesBecomeAlike) {
  // Nine full bins for four ranks: twelve are needed. Four stay full, and eight share the rest.
  const LinearItems data(std::vector<uint32_t>(9 * 8, 1));
  Bins bins;
  for (uint32_t bin = 0; bin < 9; ++bin) {
    std::vector<uint32_t> items(8);
    std::iota(items.begin(), items.end(), bin * 8);
    bins.Add(items);
  }
  const Bins split = SplitToCount(bins, 12, 4, data.items(), {.capacity = 8});
  EXPECT_EQ(SortedSums(split, data), (std::vector<uint64_t>{5, 5, 5, 5, 5, 5, 5, 5, 8, 8, 8, 8}));
}

TEST(SplitToCountTest, ReachesAnyTargetUpToTheNumberOfItemsWithinTheLimits) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 3000; ++i) {
    const auto capacity = static_cast<uint32_t>(10 + engine() % 30);
    std::vector<uint32_t> lengths(1 + engine() % 20);
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(1 + engine() % capacity);
    LinearItems data(lengths);
    // Costs of 0 are legal: a model may count only micro-batches.
    if (i % 5 == 0) std::fill(data.costs.begin(), data.costs.end(), 0);
    BinLimits limits{.capacity = capacity};
    if (i % 2 == 0) limits.max_sequences = static_cast<uint32_t>(1 + engine() % 5);
    Bins bins;
    for (uint32_t begin = 0; begin < lengths.size();) {
      std::vector<uint32_t> items;
      uint32_t room = capacity;
      while (begin < lengths.size() && lengths[begin] <= room &&
             items.size() < limits.max_sequences) {
        room -= lengths[begin];
        items.push_back(begin++);
      }
      bins.Add(items);
    }
    const size_t target = bins.size() + engine() % (lengths.size() - bins.size() + 1);
    const Bins split = SplitToCount(bins, target, 1 + engine() % 4, data.items(), limits);
    ASSERT_EQ(split.size(), target);
    std::vector<uint32_t> seen;
    for (size_t bin = 0; bin < split.size(); ++bin) {
      ASSERT_FALSE(split[bin].empty());
      ASSERT_LE(split[bin].size(), limits.max_sequences);
      uint32_t sum = 0;
      for (uint32_t item : split[bin]) {
        sum += lengths[item];
        seen.push_back(item);
      }
      ASSERT_LE(sum, capacity);
    }
    std::sort(seen.begin(), seen.end());
    for (uint32_t item = 0; item < lengths.size(); ++item) ASSERT_EQ(seen[item], item);
  }
}

}  // namespace
}  // namespace batchplan
