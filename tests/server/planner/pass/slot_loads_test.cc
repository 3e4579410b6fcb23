#include "server/planner/pass/slot_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/generators.h"
#include "tests/support/owned_loads.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Sequences with items of these values, which are dealt to ranks.
struct Images {
  std::vector<uint32_t> lengths;
  std::vector<testing::OwnedLoad> loads = {{.name = "images", .values = {}, .has_items = true}};

  explicit Images(const std::vector<std::vector<double>>& of_sequences)
      : lengths(of_sequences.size(), 1) {
    for (uint32_t i = 0; i < of_sequences.size(); ++i) {
      for (const double value : of_sequences[i]) {
        loads[0].values.push_back(value);
        loads[0].sequences.push_back(i);
      }
    }
  }

  DealtItems Deal(const std::vector<SequenceIndex>& sequences, uint32_t ranks) const {
    Manifest manifest{.lengths = lengths};
    testing::ViewLoads(loads, &manifest);
    return DealItems(Loads(manifest), 0, sequences, ranks);
  }
};

std::vector<SequenceIndex> Sequences(const std::vector<uint32_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(SlotLoadsTest, TheLargestItemGoesToTheLeastLoadedRank) {
  const Images images({{9, 4}, {4}, {}, {2, 4, 1}});
  const DealtItems dealt = images.Deal(Sequences({0, 1, 2, 3}), 2);
  EXPECT_THAT(dealt.items, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(dealt.ranks, ElementsAre(0, 1, 1, 0, 1, 0));
  EXPECT_THAT(dealt.sums, ElementsAre(12, 12));
}

TEST(SlotLoadsTest, OrdersOfSequencesAreTheSame) {
  const Images images({{9, 4}, {4}, {}, {2, 4, 1}});
  const DealtItems dealt = images.Deal(Sequences({3, 1}), 3);
  EXPECT_THAT(dealt.items, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(dealt.ranks, ElementsAre(0, 2, 1, 2));
  EXPECT_THAT(dealt.sums, ElementsAre(4, 4, 3));
}

TEST(SlotLoadsTest, OfEqualItemsTheEarlierGoesFirstToTheLowerRank) {
  const Images images({{5, 5}, {5}, {0, 0}});
  const DealtItems dealt = images.Deal(Sequences({0, 1, 2}), 4);
  EXPECT_THAT(dealt.ranks, ElementsAre(0, 1, 2, 3, 3));
  EXPECT_THAT(dealt.sums, ElementsAre(5, 5, 5, 0));
}

TEST(SlotLoadsTest, RanksWithoutItemsHaveNothing) {
  const Images images({{}, {3}});
  const DealtItems none = images.Deal(Sequences({0}), 2);
  EXPECT_THAT(none.items, IsEmpty());
  EXPECT_THAT(none.sums, ElementsAre(0, 0));
  EXPECT_THAT(images.Deal({}, 2).sums, ElementsAre(0, 0));
  EXPECT_THAT(images.Deal(Sequences({1}), 3).sums, ElementsAre(3, 0, 0));
}

TEST(SlotLoadsTest, DealsAsTheRuleReads) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    testing::RandomStream random(seed);
    // Few values, so that many are equal.
    const double unit = random.OneOf<double>({1, 0.1, 1000});
    std::vector<std::vector<double>> of_sequences(random.Between(1, 8));
    for (std::vector<double>& items : of_sequences) {
      items.resize(random.Between(0, 5));
      for (double& item : items) item = static_cast<double>(random.Between(0, 6)) * unit;
    }
    const Images images(of_sequences);
    std::vector<SequenceIndex> some;
    for (uint32_t i = 0; i < of_sequences.size(); ++i) {
      if (random.Chance(70)) some.emplace_back(i);
    }
    std::vector<size_t> numbers;
    std::vector<double> values;
    for (size_t i = 0; i < images.loads[0].values.size(); ++i) {
      const SequenceIndex sequence(images.loads[0].sequences[i]);
      if (std::ranges::find(some, sequence) == some.end()) continue;
      numbers.push_back(i);
      values.push_back(images.loads[0].values[i]);
    }
    if (random.Chance(50)) std::ranges::reverse(some);
    const auto ranks = static_cast<uint32_t>(random.Between(1, 5));
    const DealtItems dealt = images.Deal(some, ranks);
    ASSERT_EQ(dealt.items, numbers) << "seed " << seed;
    ASSERT_EQ(dealt.ranks, testing::DealNaively(values, ranks)) << "seed " << seed;
    std::vector<double> sums(ranks, 0);
    for (size_t i = 0; i < values.size(); ++i) sums[dealt.ranks[i]] += values[i];
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_NEAR(dealt.sums[rank], sums[rank], 1e-9 * (1 + sums[rank])) << "seed " << seed;
    }
  }
}

TEST(SlotLoadsTest, ASlotIsOneMicrobatchOfEachRank) {
  SequenceLists microbatches;
  for (const std::vector<uint32_t>& list :
       std::vector<std::vector<uint32_t>>{{0, 1}, {2}, {3}, {}, {4, 5}, {6}}) {
    for (const uint32_t sequence : list) microbatches.Push(SequenceIndex(sequence));
    microbatches.Close();
  }
  EXPECT_EQ(SequencesOfSlot(microbatches, 2, 0), Sequences({0, 1, 3, 4, 5}));
  EXPECT_EQ(SequencesOfSlot(microbatches, 2, 1), Sequences({2, 6}));
}

// A pass of four sequences on two ranks, for tests of whole micro-batches.
struct LoadedPass {
  std::vector<uint32_t> lengths = {4, 5, 6, 7};
  std::vector<testing::OwnedLoad> owned = {
      {.name = "memory", .values = {3, 8, 5, 2}},
      {.name = "images", .values = {6, 3, 2}, .has_items = true, .sequences = {0, 2, 2}}};
  PlanOptions options;
  Manifest manifest{.lengths = lengths};

  LoadedPass() {
    testing::ViewLoads(owned, &manifest);
    options.topology = {.data_parallel = 2, .context_parallel = 2};
    options.cost_model = {.per_token = 1, .per_token_squared = 0};
    options.cost_model.loads = {{.load = "memory", .per_unit = 4, .separate = true},
                                {.load = "images", .per_unit = 2, .dealt = true}};
    options.passes.emplace_back().max_tokens_per_microbatch = 40;
  }

  // The first rank has micro-batches {0} {1}, the other one {2} {3}.
  template <typename Use>
  void With(Use use) const {
    const Groups groups(manifest, GroupPolicy::kIgnore);
    const Loads loads(manifest);
    const PlannedLengths planned{.lengths = lengths, .excluded = {}};
    Alignments alignments(planned.lengths);
    const absl::StatusOr<Pass> pass =
        Pass::Create(manifest, options, 0, {{.multiple = 4, .capacity = 40}}, planned, alignments,
                     groups, 1, {}, NothingShared(), loads);
    ASSERT_TRUE(pass.ok()) << pass.status();
    SequenceLists microbatches;
    for (uint32_t i = 0; i < 4; ++i) {
      microbatches.Push(SequenceIndex(i));
      microbatches.Close();
    }
    use(*pass, microbatches);
  }

  bool Keeps(const std::vector<LoadLimit>& limits) {
    options.passes[0].limits = limits;
    bool keeps = false;
    With([&](const Pass& pass, const SequenceLists& microbatches) {
      keeps = KeepsLimits(pass, microbatches, 2);
    });
    return keeps;
  }
};

TEST(SlotLoadsTest, LimitsAreOfMicrobatchesAndOfRanksThatItemsAreDealtTo) {
  LoadedPass loaded;
  EXPECT_TRUE(loaded.Keeps({{"memory", 8}}));
  EXPECT_TRUE(loaded.Keeps({{"memory", 8 * (1 - 5e-10)}}));
  EXPECT_FALSE(loaded.Keeps({{"memory", 8 * (1 - 5e-9)}}));
  // In the first slot, 6 for one rank, 3 and 2 for the other.
  EXPECT_TRUE(loaded.Keeps({{"memory", 8}, {"images", 6}}));
  EXPECT_FALSE(loaded.Keeps({{"memory", 8}, {"images", 5.5}}));
  loaded.options.overlong = OverlongPolicy::kAlone;
  EXPECT_TRUE(loaded.Keeps({{"memory", 4}}));
}

TEST(SlotLoadsTest, APhaseCostsWhatItsMicrobatchHasAndADealtOneTheMostOfItsSlot) {
  const LoadedPass loaded;
  loaded.With([](const Pass& pass, const SequenceLists& microbatches) {
    const std::vector<std::vector<Cost>> costs = PhaseCosts(pass, microbatches, 2);
    ASSERT_EQ(costs.size(), 2u);
    std::vector<std::vector<double>> units;
    for (const std::vector<Cost>& phase : costs) {
      std::vector<double>& own = units.emplace_back();
      for (const Cost cost : phase) own.push_back(pass.cost().ToUnits(static_cast<double>(cost)));
    }
    // On two context-parallel ranks.
    EXPECT_THAT(units[0], ElementsAre(6, 16, 10, 4));
    EXPECT_THAT(units[1], ElementsAre(6, 0, 6, 0));
  });
}

}  // namespace
}  // namespace batchplan
