// Compares paths of intervals with lists of tokens.

#include "server/checker/shared_paths.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/naive_tokens.h"

namespace batchplan::checker {
namespace {

using testing::GeneratedRequest;
using Path = std::vector<SharedPaths::Interval>;

Path PathOf(const SharedPaths& paths, uint32_t sequence, uint32_t length) {
  Path path;
  paths.Read(sequence, length, path);
  return path;
}

GeneratedRequest RandomForest(uint64_t seed) {
  GeneratedRequest request = testing::GenerateRequest(seed);
  testing::AddSharedPrefixes(seed, &request);
  for (PassOptions& pass : request.options.passes) pass.layout = Layout::kPacked;
  return request;
}

TEST(SharedPathsTest, AgreeWithTheTokensOfRandomForests) {
  for (const uint64_t seed : testing::Seeds(300)) {
    const GeneratedRequest request = RandomForest(seed);
    SCOPED_TRACE(request.Describe());
    const auto paths = SharedPaths::Create(request.manifest(), request.options);
    ASSERT_TRUE(paths.ok()) << paths.status();
    const std::vector<std::vector<testing::Token>> tokens =
        testing::NaiveTokens(request.manifest());
    testing::RandomStream random(seed);
    PathUnion joined(*paths);
    for (int round = 0; round < 20; ++round) {
      joined.Clear();
      std::set<testing::Token> different;
      const auto longest = static_cast<uint32_t>(random.Between(1, 200));
      for (uint64_t times = random.Between(1, 5); times > 0; --times) {
        const auto a = static_cast<uint32_t>(random.Between(0, tokens.size() - 1));
        const auto b = static_cast<uint32_t>(random.Between(0, tokens.size() - 1));
        const auto cut = [&](uint32_t i) {
          return std::span(tokens[i]).first(std::min<size_t>(longest, tokens[i].size()));
        };
        const Path path = PathOf(*paths, a, static_cast<uint32_t>(cut(a).size()));
        ASSERT_EQ(InCommon(path, PathOf(*paths, b, static_cast<uint32_t>(cut(b).size()))),
                  testing::NaiveCommon(cut(a), cut(b)))
            << a << " and " << b << " cut at " << longest;
        joined.Add(path);
        different.insert(cut(a).begin(), cut(a).end());
      }
      double squares = 0;
      for (const testing::Token token : different) squares += 2.0 * testing::DepthOf(token) + 1;
      ASSERT_EQ(joined.tokens(), different.size());
      ASSERT_EQ(joined.squares(), squares);
    }
  }
}

TEST(SharedPathsTest, SomeShareWhereTwoHaveAToken) {
  for (const uint64_t seed : testing::Seeds(300)) {
    const GeneratedRequest request = RandomForest(seed);
    auto paths = SharedPaths::Create(request.manifest(), request.options);
    ASSERT_TRUE(paths.ok()) << paths.status();
    const std::vector<std::vector<testing::Token>> tokens =
        testing::NaiveTokens(request.manifest());
    testing::RandomStream random(seed);
    std::vector<uint32_t> taken;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      if (random.Chance(5)) taken.push_back(i);
    }
    std::set<testing::Token> firsts;
    for (const uint32_t i : taken) firsts.insert(tokens[i][0]);
    const size_t count = taken.size();
    paths->Take(std::move(taken));
    EXPECT_EQ(paths->SomeShare(), firsts.size() < count) << request.Describe();
  }
}

// Each sequence shares all but one token of an earlier one.
GeneratedRequest Comb(uint32_t count, uint64_t seed, uint32_t back) {
  testing::RandomStream random(seed);
  GeneratedRequest comb;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t with =
        i == 0 ? 0 : static_cast<uint32_t>(i - random.Between(1, std::min(i, back)));
    comb.shared_with.push_back(with);
    comb.shared_prefixes.push_back(i == 0 ? 0 : comb.lengths[with] - 1);
    comb.lengths.push_back(comb.shared_prefixes[i] + 2);
  }
  return comb;
}

TEST(SharedPathsTest, HaveFewIntervalsInWhateverForest) {
  for (const uint32_t back : {1, 2, 1000}) {
    const GeneratedRequest comb = Comb(100000, back, back);
    const auto paths = SharedPaths::Create(comb.manifest(), comb.options);
    ASSERT_TRUE(paths.ok()) << paths.status();
    PathUnion joined(*paths);
    Path path;
    Path before;
    for (uint32_t i = 0; i < comb.lengths.size(); ++i) {
      paths->Read(i, comb.lengths[i], path);
      ASSERT_LE(path.size(), 2 * std::bit_width(comb.lengths.size()));
      const uint32_t common = back == 1 ? comb.shared_prefixes[i] : InCommon(before, path);
      ASSERT_EQ(InCommon(before, path), common);
      joined.Add(path);
      before = path;
    }
    EXPECT_EQ(joined.tokens(), 2 * comb.lengths.size());
  }
}

}  // namespace
}  // namespace batchplan::checker
