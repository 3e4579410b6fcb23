#include "server/planner/balance/accumulated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <vector>

#include "server/planner/balance/even_parts.h"
#include "server/planner/packing/packer.h"
#include "tests/support/assignments.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

struct Instance {
  std::vector<uint32_t> lengths = {};
  std::vector<uint32_t> counts = {};
  std::vector<uint64_t> loads = {};
  BinLimits limits = {};
  uint32_t ranks = 1;
  size_t slots = 1;
  Bins start = {};

  PackItems view() const { return {.lengths = lengths, .counts = counts, .loads = loads}; }
};

// An instance of up to `most` items, packed as tightly as by best fit or a little looser.
Instance RandomInstance(RandomStream& random, size_t most) {
  Instance instance;
  const size_t size = random.Between(1, most);
  instance.limits.capacity = random.OneOf<uint32_t>({10, 100, 5000});
  if (random.Chance(30))
    instance.limits.max_sequences = static_cast<uint32_t>(random.Between(3, 6));
  const uint32_t widest =
      std::max(1u, instance.limits.capacity / random.OneOf<uint32_t>({1, 2, 8}));
  const bool counted = random.Chance(30);
  const auto fixed = random.OneOf<uint64_t>({0, 50});
  for (size_t i = 0; i < size; ++i) {
    const uint64_t length = random.Between(1, widest);
    instance.lengths.push_back(static_cast<uint32_t>(length));
    instance.loads.push_back(fixed * length + length * length);
    if (counted) instance.counts.push_back(static_cast<uint32_t>(random.Between(1, 3)));
  }
  instance.start = Pack(Packer::kBestFitDecreasing, instance.view(), instance.limits, 0);
  const size_t bins = instance.start.size();
  instance.ranks = static_cast<uint32_t>(random.Between(1, std::min<size_t>(bins, 6)));
  instance.slots = (bins + instance.ranks - 1) / instance.ranks;
  while (instance.slots * instance.ranks > size) {
    --instance.ranks;  // one rank with a slot a bin always fits
    instance.slots = (bins + instance.ranks - 1) / instance.ranks;
  }
  if (random.Chance(30) && (instance.slots + 1) * instance.ranks <= size) ++instance.slots;
  return instance;
}

bool IsLegal(const Bins& bins, const Instance& instance) {
  if (bins.size() != instance.ranks * instance.slots) return false;
  std::vector<int> seen(instance.lengths.size(), 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    for (const uint32_t item : bins[bin]) {
      tokens += instance.lengths[item];
      sequences += instance.view().count(item);
      ++seen[item];
    }
    if (bins[bin].empty() || tokens > instance.limits.capacity) return false;
    if (sequences > instance.limits.max_sequences) return false;
  }
  return std::ranges::all_of(seen, [](int times) { return times == 1; });
}

uint64_t CostliestRank(const Bins& bins, const Instance& instance) {
  std::vector<uint64_t> costs(instance.ranks, 0);
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (const uint32_t item : bins[bin]) costs[bin / instance.slots] += instance.loads[item];
  }
  return *std::max_element(costs.begin(), costs.end());
}

// The least cost of the costliest rank, over all assignments of items to bins. O(bins^n).
uint64_t LeastCostliestRank(const Instance& instance) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  const auto bins = static_cast<uint32_t>(instance.ranks * instance.slots);
  std::vector<uint32_t> items(instance.lengths.size());
  for (uint32_t i = 0; i < items.size(); ++i) items[i] = i;
  testing::ForEachAssignment(items.size(), bins, [&](const std::vector<uint32_t>& bin_of) {
    const Bins all(items, bin_of, bins);
    if (IsLegal(all, instance)) least = std::min(least, CostliestRank(all, instance));
  });
  return least;
}

TEST(BalanceAccumulatedTest, BinsAreLegalAndTheSameEveryTime) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const Instance instance = RandomInstance(random, 80);
    const auto effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault});
    const auto balance = [&] {
      return BalanceAccumulated(instance.view(), instance.limits, instance.ranks, instance.slots,
                                instance.start, effort);
    };
    const Bins bins = balance();
    ASSERT_TRUE(IsLegal(bins, instance)) << "seed " << seed;
    const Bins again = balance();
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      ASSERT_TRUE(std::ranges::equal(bins[bin], again[bin])) << "seed " << seed;
    }
  }
}

TEST(BalanceAccumulatedTest, TheBestOfTinyInstancesIsHardlyEverMissed) {
  size_t compared = 0;
  size_t missed = 0;
  for (const uint64_t seed : testing::Seeds(400)) {
    RandomStream random(seed);
    const Instance instance = RandomInstance(random, 7);
    if (instance.ranks * instance.slots > 5) continue;
    const Bins bins = BalanceAccumulated(instance.view(), instance.limits, instance.ranks,
                                         instance.slots, instance.start, Effort::kThorough);
    const uint64_t least = LeastCostliestRank(instance);
    const uint64_t cost = CostliestRank(bins, instance);
    ASSERT_GE(cost, least) << "seed " << seed;
    ++compared;
    missed += cost > least;
  }
  EXPECT_GT(compared, testing::Cases(400) / 4);
  EXPECT_LE(missed, compared / 20);
}

TEST(BalanceAccumulatedTest, TrainingBatchesMeetTheBound) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    for (const uint32_t capacity : {16384u, 32768u}) {
      Instance instance{.lengths = testing::MathsLengths(1024, seed),
                        .limits = {.capacity = capacity},
                        .ranks = 16};
      for (const uint64_t length : instance.lengths) {
        instance.loads.push_back(24576 * length + length * length);
      }
      instance.start = Pack(Packer::kBestFitDecreasing, instance.view(), instance.limits, 0);
      instance.slots = (instance.start.size() + 15) / 16;
      std::vector<uint64_t> descending = instance.loads;
      std::sort(descending.begin(), descending.end(), std::greater<>());
      const uint64_t bound = LargestSumBound(descending, instance.ranks, instance.slots);
      const Bins bins = BalanceAccumulated(instance.view(), instance.limits, 16, instance.slots,
                                           instance.start, Effort::kDefault);
      ASSERT_TRUE(IsLegal(bins, instance));
      ASSERT_LE(CostliestRank(bins, instance), bound + bound / 1000) << "seed " << seed;
    }
  }
}

TEST(BalanceAccumulatedTest, BinsOfARankAreAlikeWhereThereIsRoom) {
  Instance instance{.lengths = std::vector<uint32_t>(24, 100),
                    .limits = {.capacity = 1000},
                    .ranks = 2,
                    .slots = 3};
  instance.loads.assign(24, 7);
  instance.start = Pack(Packer::kBestFitDecreasing, instance.view(), instance.limits, 0);
  const Bins bins =
      BalanceAccumulated(instance.view(), instance.limits, 2, 3, instance.start, Effort::kDefault);
  for (size_t bin = 0; bin < bins.size(); ++bin) EXPECT_EQ(bins[bin].size(), 4);
}

TEST(BalanceAccumulatedTest, AStoppedSearchIsLegal) {
  std::stop_source source;
  source.request_stop();
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    const Instance instance = RandomInstance(random, 80);
    const Bins bins =
        BalanceAccumulated(instance.view(), instance.limits, instance.ranks, instance.slots,
                           instance.start, Effort::kThorough, source.get_token());
    ASSERT_TRUE(IsLegal(bins, instance)) << "seed " << seed;
  }
}

TEST(BalanceAccumulatedTest, NothingCostsNothing) {
  Instance instance{
      .lengths = {4, 4, 4}, .loads = {0, 0, 0}, .limits = {.capacity = 5}, .ranks = 3};
  instance.start = Pack(Packer::kBestFitDecreasing, instance.view(), instance.limits, 0);
  EXPECT_TRUE(IsLegal(
      BalanceAccumulated(instance.view(), instance.limits, 3, 1, instance.start, Effort::kDefault),
      instance));
}

}  // namespace
}  // namespace batchplan
