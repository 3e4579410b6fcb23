// Compares what sequences have in common with their tokens.

#include "server/planner/request/shared_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "tests/support/generators.h"
#include "tests/support/naive_tokens.h"

namespace batchplan {
namespace {

using testing::NaiveCommon;
using testing::RandomStream;
using testing::Token;

struct Forest {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> prefixes;
  std::vector<uint32_t> with;

  Manifest manifest() const {
    return {.lengths = lengths, .shared_prefixes = prefixes, .shared_with = with};
  }
};

// Short sequences, so that many are prefixes or copies of others.
Forest RandomForest(uint64_t seed) {
  RandomStream random(seed);
  Forest forest;
  const auto count = static_cast<uint32_t>(random.Between(1, 14));
  const auto longest = random.Between(1, 9);
  const auto related = static_cast<uint32_t>(random.Between(50, 100));
  const auto chained = static_cast<uint32_t>(random.Between(0, 100));
  const auto whole = static_cast<uint32_t>(random.Between(0, 60));
  for (uint32_t i = 0; i < count; ++i) {
    forest.lengths.push_back(static_cast<uint32_t>(random.Between(1, longest)));
    forest.prefixes.push_back(0);
    forest.with.push_back(0);
    if (i == 0 || !random.Chance(related)) continue;
    const auto with =
        static_cast<uint32_t>(random.Chance(chained) ? i - 1 : random.Between(0, i - 1));
    const uint32_t most = std::min(forest.lengths[i], forest.lengths[with]);
    forest.with[i] = with;
    forest.prefixes[i] =
        random.Chance(whole) ? most : static_cast<uint32_t>(random.Between(1, most));
  }
  return forest;
}

std::vector<SequenceIndex> All(size_t count) {
  std::vector<SequenceIndex> all;
  for (uint32_t i = 0; i < count; ++i) all.emplace_back(i);
  return all;
}

TEST(SharedPrefixesTest, AreThoseOfTheTokens) {
  for (const uint64_t seed : testing::Seeds(5000)) {
    const Forest forest = RandomForest(seed);
    SCOPED_TRACE(seed);
    ASSERT_TRUE(CheckSharedPrefixes(forest.manifest()).ok());
    std::vector<std::vector<Token>> tokens = testing::NaiveTokens(forest.manifest());
    const uint32_t longest = seed % 2 == 0 ? UINT32_MAX : static_cast<uint32_t>(1 + seed / 2 % 9);
    for (std::vector<Token>& sequence : tokens) {
      sequence.resize(std::min<size_t>(sequence.size(), longest));
    }
    const SharedPrefixes prefixes(forest.manifest(), longest);
    if (prefixes.empty()) {
      EXPECT_EQ(std::ranges::count(forest.prefixes, 0u), std::ssize(forest.prefixes));
      continue;
    }
    for (uint32_t a = 0; a < tokens.size(); ++a) {
      for (uint32_t b = 0; b < tokens.size(); ++b) {
        if (a == b) continue;
        ASSERT_EQ(prefixes.Common(SequenceIndex(a), SequenceIndex(b)),
                  NaiveCommon(tokens[a], tokens[b]))
            << a << " and " << b;
      }
    }
  }
}

TEST(SharedPrefixesTest, PutWhatSharesMostTogetherAndPrefixesBeforeWhatExtendsThem) {
  for (const uint64_t seed : testing::Seeds(5000)) {
    const Forest forest = RandomForest(seed);
    SCOPED_TRACE(seed);
    const SharedPrefixes prefixes(forest.manifest());
    if (prefixes.empty()) continue;
    const std::vector<std::vector<Token>> tokens = testing::NaiveTokens(forest.manifest());
    std::vector<SequenceIndex> sorted = All(tokens.size());
    prefixes.Sort(sorted);
    for (size_t k = 1; k < sorted.size(); ++k) {
      ASSERT_TRUE(testing::StandsBefore(tokens, sorted[k - 1].value(), sorted[k].value()))
          << sorted[k - 1].value() << " before " << sorted[k].value();
    }
    // So a row of all sequences has each token once.
    std::vector<Token> different;
    for (const auto& sequence : tokens) {
      different.insert(different.end(), sequence.begin(), sequence.end());
    }
    std::ranges::sort(different);
    different.erase(std::unique(different.begin(), different.end()), different.end());
    ASSERT_EQ(prefixes.TokensOf(sorted, forest.lengths), different.size());
  }
}

TEST(SharedPrefixesTest, AmongSomeAreWhatFollowsFromAll) {
  for (const uint64_t seed : testing::Seeds(5000)) {
    const Forest forest = RandomForest(seed);
    SCOPED_TRACE(seed);
    const SharedPrefixes prefixes(forest.manifest());
    if (prefixes.empty()) continue;
    const std::vector<std::vector<Token>> tokens = testing::NaiveTokens(forest.manifest());
    RandomStream random(seed);
    std::vector<SequenceIndex> some;
    Forest part;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      if (!random.Chance(60)) continue;
      some.emplace_back(i);
      part.lengths.push_back(forest.lengths[i]);
    }
    const PrefixRelations relations = prefixes.Among(some);
    part.prefixes = relations.prefixes;
    part.with = relations.with;
    ASSERT_EQ(part.prefixes.size(), some.size());
    const absl::Status status = CheckSharedPrefixes(part.manifest());
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<std::vector<Token>> part_tokens = testing::NaiveTokens(part.manifest());
    for (size_t a = 0; a < some.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        ASSERT_EQ(NaiveCommon(part_tokens[a], part_tokens[b]),
                  NaiveCommon(tokens[some[a].value()], tokens[some[b].value()]))
            << a << " and " << b;
      }
    }
  }
}

TEST(SharedPrefixesTest, OfGroupsAreSharedWithTheirFirst) {
  const std::vector<uint32_t> lengths = {5, 6, 7, 3};
  const std::vector<uint32_t> groups = {8, 2, 8, 8};
  // The prefixes of the first two are ignored.
  const std::vector<uint32_t> shared = {9, 9, 4, 3};
  const Manifest manifest = {.lengths = lengths, .group_ids = groups, .shared_prefixes = shared};
  ASSERT_TRUE(CheckSharedPrefixes(manifest).ok());
  const SharedPrefixes prefixes(manifest);
  EXPECT_EQ(prefixes.Common(SequenceIndex(0), SequenceIndex(2)), 4u);
  EXPECT_EQ(prefixes.Common(SequenceIndex(3), SequenceIndex(2)), 3u);
  EXPECT_EQ(prefixes.Common(SequenceIndex(1), SequenceIndex(2)), 0u);
}

TEST(SharedPrefixesTest, AreEmptyWhereNothingIsShared) {
  const std::vector<uint32_t> lengths = {5, 6};
  const std::vector<uint32_t> none = {0, 0};
  const std::vector<uint32_t> far = {7, UINT32_MAX};
  EXPECT_TRUE(SharedPrefixes(Manifest{.lengths = lengths}).empty());
  const Manifest zeros = {.lengths = lengths, .shared_prefixes = none, .shared_with = far};
  EXPECT_TRUE(CheckSharedPrefixes(zeros).ok());
  EXPECT_TRUE(SharedPrefixes(zeros).empty());
  EXPECT_TRUE(NothingShared().empty());
  EXPECT_TRUE(NothingShared().Among(All(2)).prefixes.empty());
}

// A wrong manifest and the error for it.
struct Mistake {
  std::string name;
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> groups;
  std::vector<uint32_t> prefixes;
  std::vector<uint32_t> with;
  std::string message;
};

class SharedPrefixesErrorTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(SharedPrefixesErrorTest, NamesFieldValueAndLimit) {
  const Mistake& mistake = GetParam();
  const absl::Status status = CheckSharedPrefixes({.lengths = mistake.lengths,
                                                   .group_ids = mistake.groups,
                                                   .shared_prefixes = mistake.prefixes,
                                                   .shared_with = mistake.with});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), mistake.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedPrefixesErrorTest,
    ::testing::Values(
        Mistake{"PrefixesOfAnotherSize",
                {5, 6},
                {},
                {0},
                {0, 0},
                "manifest.shared_prefixes has 1 entries, but manifest.lengths has 2; give one a "
                "sequence, or none"},
        Mistake{"WithOfAnotherSize",
                {5, 6},
                {},
                {0, 4},
                {0, 0, 0},
                "manifest.shared_with has 3 entries, but manifest.lengths has 2; give one a "
                "sequence, or none"},
        Mistake{"WithAlone",
                {5, 6},
                {},
                {},
                {0, 0},
                "manifest.shared_with is set, but shared_prefixes is empty; give both, or none"},
        Mistake{"NeitherWithNorGroups",
                {5, 6},
                {},
                {0, 4},
                {},
                "manifest.shared_prefixes is set, but neither shared_with nor group_ids say with "
                "whom; give one of them"},
        Mistake{"WithItself",
                {5, 6},
                {},
                {0, 4},
                {0, 1},
                "manifest.shared_with[1] is 1; it must be below 1, an earlier sequence"},
        Mistake{"TheFirstWithSomebody",
                {5, 6},
                {},
                {1, 4},
                {0, 0},
                "manifest.shared_with[0] is 0; it must be below 0, an earlier sequence"},
        Mistake{"OutOfRange",
                {5, 6},
                {},
                {0, 4},
                {0, UINT32_MAX},
                "manifest.shared_with[1] is 4294967295; it must be below 1, an earlier sequence"},
        Mistake{"LongerThanItself",
                {5, 3},
                {},
                {0, 4},
                {0, 0},
                "manifest.shared_prefixes[1] is 4, but of the two sequences that share it number 1 "
                "has 3 tokens and number 0 has 5"},
        Mistake{"LongerThanTheOther",
                {5, 9},
                {},
                {0, 6},
                {0, 0},
                "manifest.shared_prefixes[1] is 6, but of the two sequences that share it number 1 "
                "has 9 tokens and number 0 has 5"},
        Mistake{"LongerThanTheFirstOfItsGroup",
                {5, 9, 9},
                {1, 2, 1},
                {0, 0, 6},
                {},
                "manifest.shared_prefixes[2] is 6, but of the two sequences that share it number 2 "
                "has 9 tokens and number 0 has 5"}),
    [](const ::testing::TestParamInfo<Mistake>& info) { return info.param.name; });

// Each sequence shares all but one token of the one before it.
TEST(SharedPrefixesAttackTest, AChainOfAMillion) {
  const uint32_t count = 1000000;
  Forest chain;
  for (uint32_t i = 0; i < count; ++i) {
    chain.lengths.push_back(i + 2);
    chain.prefixes.push_back(i);
    chain.with.push_back(i == 0 ? 0 : i - 1);
  }
  chain.prefixes[1] = 1;
  const SharedPrefixes prefixes(chain.manifest());
  RandomStream random(1);
  for (int times = 0; times < 100000; ++times) {
    const auto a = static_cast<uint32_t>(random.Between(0, count - 2));
    const auto b = static_cast<uint32_t>(random.Between(a + 1, count - 1));
    ASSERT_EQ(prefixes.Common(SequenceIndex(a), SequenceIndex(b)), a + 1);
  }
  std::vector<SequenceIndex> all = All(count);
  prefixes.Sort(all);
  EXPECT_EQ(prefixes.TokensOf(all, chain.lengths), 2ull * count);
  const PrefixRelations relations = prefixes.Among(All(count));
  EXPECT_EQ(relations.prefixes[count - 1], count - 1);
}

// Half of the sequences lengthen a chain. All others branch off its end where its first sequence
// ends.
TEST(SharedPrefixesAttackTest, ManyBranchesFarUpAChain) {
  const uint32_t half = 300000;
  Forest forest;
  for (uint32_t i = 0; i < 2 * half; ++i) {
    const bool chained = i < half;
    forest.lengths.push_back(chained ? i + 2 : 7);
    forest.prefixes.push_back(i == 0 ? 0 : chained ? i : 2);
    forest.with.push_back(i == 0 ? 0 : chained ? i - 1 : half - 1);
  }
  const SharedPrefixes prefixes(forest.manifest());
  EXPECT_EQ(prefixes.Common(SequenceIndex(half), SequenceIndex(2 * half - 1)), 2u);
  EXPECT_EQ(prefixes.Common(SequenceIndex(half - 1), SequenceIndex(2 * half - 1)), 2u);
  std::vector<SequenceIndex> all = All(2 * half);
  prefixes.Sort(all);
  EXPECT_EQ(prefixes.TokensOf(all, forest.lengths), 2ull * half + 5ull * half);
}

TEST(SharedPrefixesAttackTest, AStarAndManyStars) {
  for (const uint32_t leaves : {1u, 7u, 500000u}) {
    const uint32_t count = 500000;
    std::vector<uint32_t> lengths(count, 9);
    std::vector<uint32_t> groups;
    std::vector<uint32_t> shared(count, 4);
    for (uint32_t i = 0; i < count; ++i) groups.push_back(i / leaves);
    const SharedPrefixes prefixes(
        Manifest{.lengths = lengths, .group_ids = groups, .shared_prefixes = shared});
    EXPECT_EQ(prefixes.empty(), leaves == 1);
    if (leaves == 1) continue;
    std::vector<SequenceIndex> all = All(count);
    prefixes.Sort(all);
    const uint64_t stars = groups.back() + 1;
    EXPECT_EQ(prefixes.TokensOf(all, lengths), 4 * stars + 5 * uint64_t{count});
  }
}

TEST(SharedPrefixesAttackTest, LengthsOfThirtyTwoBits) {
  const uint32_t most = UINT32_MAX;
  const Forest forest = {{most, most, most}, {0, most, most - 1}, {0, 0, 1}};
  ASSERT_TRUE(CheckSharedPrefixes(forest.manifest()).ok());
  const SharedPrefixes prefixes(forest.manifest());
  EXPECT_EQ(prefixes.Common(SequenceIndex(0), SequenceIndex(1)), most);
  EXPECT_EQ(prefixes.Common(SequenceIndex(0), SequenceIndex(2)), most - 1);
  std::vector<SequenceIndex> all = All(3);
  prefixes.Sort(all);
  EXPECT_EQ(prefixes.TokensOf(all, forest.lengths), uint64_t{most} + 1);
}

TEST(RangeMinimaTest, AreTheLeastOfAnyRun) {
  RandomStream random(testing::Seed(3));
  for (size_t size = 1; size < 140; ++size) {
    std::vector<uint32_t> values;
    for (size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<uint32_t>(random.Between(0, 3 * size)));
    }
    const RangeMinima minima(values);
    ASSERT_EQ(minima.size(), size);
    for (size_t first = 0; first < size; ++first) {
      uint32_t least = values[first];
      for (size_t last = first; last < size; ++last) {
        least = std::min(least, values[last]);
        ASSERT_EQ(minima.Of(first, last), least) << first << " to " << last << " of " << size;
      }
    }
  }
  EXPECT_EQ(RangeMinima().size(), 0u);
  EXPECT_EQ(RangeMinima(std::vector<uint32_t>{}).size(), 0u);
}

TEST(RangeMinimaTest, OfManyValues) {
  RandomStream random(testing::Seed(4));
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < 20000; ++i) {
    values.push_back(static_cast<uint32_t>(random.Between(0, UINT32_MAX)));
  }
  const RangeMinima minima(values);
  for (int times = 0; times < 2000; ++times) {
    const auto first = random.Between(0, values.size() - 1);
    const auto last = random.Between(first, values.size() - 1);
    const auto run = std::span(values).subspan(first, last - first + 1);
    ASSERT_EQ(minima.Of(first, last), std::ranges::min(run)) << first << " to " << last;
  }
}

}  // namespace
}  // namespace batchplan
