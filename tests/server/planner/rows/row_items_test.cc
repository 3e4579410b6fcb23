#include "server/planner/rows/row_items.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/subtrees.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/tree_pieces.h"
#include "tests/server/planner/rows/forest_pass.h"

namespace batchplan {
namespace {

using testing::ForestPass;
using testing::RandomStream;

void ExpectAlike(const Row& bin, const Row& expected) {
  EXPECT_EQ(bin.items, expected.items);
  EXPECT_EQ(bin.commons, expected.commons);
  EXPECT_EQ(bin.tokens, expected.tokens);
  EXPECT_EQ(bin.sequences, expected.sequences);
  EXPECT_NEAR(bin.cost, expected.cost, 1e-6);
}

// The items of a bin, and others in their order.
struct Split {
  std::vector<uint32_t> bin;
  std::vector<uint32_t> added;
  std::vector<uint32_t> both;
};

Split RandomSplit(const RowItems& items, RandomStream& random) {
  Split split;
  const auto first = static_cast<uint32_t>(random.Between(0, items.size() - 1));
  const auto end = static_cast<uint32_t>(random.Between(first + 1, items.size()));
  for (uint32_t item = 0; item < items.size(); ++item) {
    const bool is_added = item >= first && item < end && (item == first || random.Chance(60));
    if (is_added) {
      split.added.push_back(item);
    } else if (random.Chance(50)) {
      split.bin.push_back(item);
    } else {
      continue;
    }
    split.both.push_back(item);
  }
  return split;
}

TEST(RowItemsTest, AddUpToTheTokensAndCostsOfRows) {
  for (const uint64_t seed : testing::Seeds(100)) {
    ForestPass forest = testing::RandomForest(seed);
    const Pass pass = forest.Create();
    if (pass.prefixes() == nullptr) continue;
    const MiniBatchTree tree(pass, forest.sequences);
    const std::optional<RowItems> items = RowItems::Create(pass, tree);
    ASSERT_TRUE(items);
    std::vector<uint32_t> all(items->size());
    std::iota(all.begin(), all.end(), 0u);
    const Row bin = BinOf(*items, all);
    std::vector<SequenceIndex> row;
    for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) row.push_back(tree[leaf]);
    EXPECT_EQ(bin.tokens, forest.shared.TokensOf(row, forest.lengths));
    EXPECT_EQ(bin.tokens, UniqueOf(pass, forest.sequences).tokens);
    EXPECT_NEAR(bin.cost, pass.cost().ToUnits(pass.CostOf(row, 0)), 1e-6);
  }
}

TEST(RowItemsTest, ChangeAsTheyAreAdded) {
  for (const uint64_t seed : testing::Seeds(400)) {
    ForestPass forest = testing::RandomForest(seed);
    const Pass pass = forest.Create();
    const MiniBatchTree tree(pass, forest.sequences);
    const std::optional<RowItems> items = RowItems::Create(pass, tree);
    ASSERT_TRUE(items);
    RandomStream random(seed);
    const Split split = RandomSplit(*items, random);
    Row bin = BinOf(*items, split.bin);
    const Row alone = BinOf(*items, split.added);
    const Row both = BinOf(*items, split.both);
    const RowChange change =
        ChangeBy(*items, bin, split.added, {.tokens = alone.tokens, .cost = alone.cost});
    EXPECT_EQ(bin.tokens + change.tokens, both.tokens);
    EXPECT_NEAR(bin.cost + change.cost, both.cost, 1e-6);
    AddTo(*items, split.added, bin);
    ExpectAlike(bin, both);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(TreePiecesTest, HaveEveryItemOnceWithinTheLimits) {
  for (const uint64_t seed : testing::Seeds(200)) {
    ForestPass forest = testing::RandomForest(seed);
    const Pass pass = forest.Create();
    const MiniBatchTree tree(pass, forest.sequences);
    const std::optional<RowItems> items = RowItems::Create(pass, tree);
    ASSERT_TRUE(items);
    RandomStream random(seed);
    const PieceLimits limits = {.tokens = random.Between(400, 900),
                                .sequences = static_cast<uint32_t>(random.Between(1, 8)),
                                .cost = static_cast<double>(random.Between(1, 1500)),
                                .worth = random.OneOf<double>({0, 0.1})};
    uint32_t next = 0;
    for (const TreePiece& piece : TreePieces(*items).Cut(limits)) {
      EXPECT_EQ(piece.first, next);
      next += piece.count;
      if (piece.count == 1) continue;
      std::vector<uint32_t> own(piece.count);
      std::iota(own.begin(), own.end(), piece.first);
      const Row bin = BinOf(*items, own);
      EXPECT_LE(bin.tokens, limits.tokens);
      EXPECT_LE(bin.sequences, limits.sequences);
      EXPECT_LE(bin.cost, limits.cost * (1 + 1e-9));
      // Each sequence of a piece shares something with the one before it.
      for (size_t i = 1; i < bin.commons.size(); ++i) EXPECT_GT(bin.commons[i], 0u);
    }
    EXPECT_EQ(next, items->size());
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(TreePiecesTest, AreCutUntilThereAreEnough) {
  for (const uint64_t seed : testing::Seeds(200)) {
    ForestPass forest = testing::RandomForest(seed);
    const Pass pass = forest.Create();
    const MiniBatchTree tree(pass, forest.sequences);
    const std::optional<RowItems> items = RowItems::Create(pass, tree);
    ASSERT_TRUE(items);
    const TreePieces pieces(*items);
    const auto cost_of = [&](uint32_t begin, uint32_t end) {
      std::vector<uint32_t> own(end - begin);
      std::iota(own.begin(), own.end(), begin);
      return BinOf(*items, own).cost;
    };
    // One cut, where the costlier part is cheapest.
    std::vector<TreePiece> two = {{0, items->size()}};
    ASSERT_EQ(pieces.CutUpTo(2, two), items->size() >= 2);
    if (items->size() < 2) continue;
    const auto costlier = [&](uint32_t cut) {
      return std::max(cost_of(0, cut), cost_of(cut, items->size()));
    };
    double least = costlier(1);
    for (uint32_t cut = 2; cut < items->size(); ++cut) least = std::min(least, costlier(cut));
    EXPECT_LE(costlier(two[0].count), least * (1 + 1e-9));
    // As many cuts as there can be.
    std::vector<TreePiece> all = {{0, items->size()}};
    EXPECT_TRUE(pieces.CutUpTo(items->size(), all));
    std::ranges::sort(all, {}, &TreePiece::first);
    for (uint32_t item = 0; item < items->size(); ++item) {
      EXPECT_EQ(all[item], (TreePiece{item, 1}));
    }
    EXPECT_FALSE(pieces.CutUpTo(items->size() + 1, all));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(SubtreesTest, AreTheRunsThatShareMoreThanTheirNeighbours) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    std::vector<uint32_t> common = {0};
    for (uint64_t left = random.Between(0, 30); left > 0; --left) {
      common.push_back(static_cast<uint32_t>(random.Between(0, 4)));
    }
    const auto size = static_cast<uint32_t>(common.size());
    std::vector<std::vector<uint32_t>> expected = {{0, size, 0}};
    for (uint32_t begin = 0; begin < size; ++begin) {
      for (uint32_t end = begin + 2; end <= size; ++end) {
        const uint32_t inside = *std::min_element(common.begin() + begin + 1, common.begin() + end);
        const uint32_t before = begin == 0 ? 0 : common[begin];
        const uint32_t after = end == size ? 0 : common[end];
        if (inside > before && inside > after) expected.push_back({begin, end, inside});
      }
    }
    const Subtrees subtrees(common);
    std::vector<std::vector<uint32_t>> found;
    for (uint32_t node = 0; node < subtrees.size(); ++node) {
      const Subtrees::Node& subtree = subtrees[node];
      found.push_back({subtree.begin, subtree.end, subtree.depth});
      if (node == 0) continue;
      const Subtrees::Node& parent = subtrees[subtree.parent];
      EXPECT_LT(parent.depth, subtree.depth);
      EXPECT_LE(parent.begin, subtree.begin);
      EXPECT_GE(parent.end, subtree.end);
    }
    std::ranges::sort(expected);
    std::ranges::sort(found);
    EXPECT_EQ(found, expected) << "seed " << seed;
    EXPECT_EQ(subtrees.bottom_up().size(), subtrees.size());
    EXPECT_EQ(subtrees.bottom_up().back(), 0u);
  }
}

}  // namespace
}  // namespace batchplan
