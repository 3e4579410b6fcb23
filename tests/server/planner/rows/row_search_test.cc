#include "server/planner/rows/row_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/rows/reference_trees.h"
#include "server/planner/rows/row_starts.h"
#include "tests/server/planner/rows/forest_pass.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::ForestPass;
using testing::RandomStream;

TEST(RowSearchTest, KeepsEveryItemAndLimitAndIsNeverSlower) {
  uint64_t shorter = 0;
  for (const uint64_t seed : testing::Seeds(200)) {
    ForestPass forest = testing::RandomForest(seed);
    const Pass pass = forest.Create();
    const MiniBatchTree tree(pass, forest.sequences);
    const std::optional<RowItems> items = RowItems::Create(pass, tree);
    ASSERT_TRUE(items);
    RandomStream random(seed);
    RowTerms terms = {.synchronization = random.OneOf<Synchronization>(
                          {Synchronization::kLockstep, Synchronization::kAccumulated}),
                      .ranks = pass.ranks(),
                      .slots = static_cast<uint32_t>(random.Between(1, 12)),
                      .capacity = pass.bin_limits().capacity,
                      .max_sequences = random.OneOf<uint32_t>({4, UINT32_MAX}),
                      .keeps_ranks = random.Chance(30),
                      .keeps_counts = random.Chance(30),
                      .may_empty = random.Chance(30)};
    std::vector<TreePiece> pieces;
    for (uint32_t item = 0; item < items->size(); ++item) pieces.push_back({item, 1});
    const bool counts = std::exchange(terms.keeps_counts, false);
    std::optional<std::vector<Row>> start =
        FillWithPieces(*items, terms, pieces, PieceChoice::kCheapest, {}, {});
    terms.keeps_counts = counts;
    if (!start) continue;
    std::vector<uint32_t> rank_of(items->size());
    std::vector<int64_t> count_of(terms.ranks, 0);
    for (uint32_t bin = 0; bin < start->size(); ++bin) {
      for (const uint32_t item : (*start)[bin].items) rank_of[item] = bin / terms.slots;
      count_of[bin / terms.slots] += (*start)[bin].sequences;
    }
    // Counts stay equal, or within one if they differed by at most one.
    const std::vector<int64_t> counts_before = count_of;
    const auto [fewest, most] = std::ranges::minmax(counts_before);
    RowSearch search(*items, terms, *std::move(start), seed);
    const double before = search.time();
    search.Improve(300, {});
    EXPECT_LE(search.time(), before);
    shorter += search.time() < before ? 1 : 0;
    std::vector<uint32_t> found;
    for (uint32_t bin = 0; bin < search.bins().size(); ++bin) {
      const Row& own = search.bins()[bin];
      EXPECT_EQ(own.tokens, BinOf(*items, own.items).tokens);
      EXPECT_LE(own.tokens, terms.capacity);
      EXPECT_LE(own.sequences, terms.max_sequences);
      EXPECT_TRUE(terms.may_empty || !own.items.empty());
      const uint32_t rank = bin / terms.slots;
      count_of[rank] -= own.sequences;
      for (const uint32_t item : own.items) {
        found.push_back(item);
        EXPECT_TRUE(!terms.keeps_ranks || rank_of[item] == rank);
      }
    }
    for (uint32_t rank = 0; rank < terms.ranks && terms.keeps_counts; ++rank) {
      const int64_t now = counts_before[rank] - count_of[rank];
      EXPECT_TRUE(now == counts_before[rank] ||
                  (most - fewest == 1 && now >= fewest && now <= most));
    }
    std::ranges::sort(found);
    EXPECT_EQ(found.size(), items->size());
    EXPECT_EQ(std::ranges::adjacent_find(found), found.end());
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(shorter, testing::Cases(200) / 4);
}

std::vector<std::vector<uint32_t>> RowsOf(ForestPass& forest) {
  const Pass pass = forest.Create();
  const std::optional<Placement> placement = PlaceAsTrees(pass, forest.sequences, {});
  std::vector<std::vector<uint32_t>> rows;
  for (size_t m = 0; placement && m < placement->microbatches.size(); ++m) {
    std::vector<uint32_t>& row = rows.emplace_back();
    for (const SequenceIndex sequence : placement->microbatches[m]) {
      row.push_back(sequence.value());
    }
  }
  return rows;
}

// Three groups of two: of 10 + 4 and 10 + 6 tokens, 6 + 2 and 6 + 3, and 3 + 9 and 3 + 1.
ForestPass ThreeGroups(Sharding sharding, uint32_t ranks, uint32_t budget) {
  return {{14, 16, 8, 9, 12, 4}, {0, 10, 0, 6, 0, 3}, {0, 0, 0, 2, 0, 4}, ranks, budget, sharding,
          {7, 7, 8, 8, 9, 9}};
}

TEST(ReferenceTreesTest, ArealFillsTheRowsOfARankInTurn) {
  // 30, 17 and 16 tokens: the first group to rank 0, the second to rank 1, and the third there too,
  // where it is lightest. Sequence 5 would be the 24th token of a row.
  ForestPass forest = ThreeGroups(Sharding::kArealTree, 2, 23);
  forest.options.allow_empty_microbatches = true;
  EXPECT_THAT(RowsOf(forest),
              ElementsAre(ElementsAre(0, 1), ElementsAre(), ElementsAre(2, 3, 4), ElementsAre(5)));
  // If none may be empty, the largest row of the other rank is halved.
  forest.options.allow_empty_microbatches = false;
  EXPECT_THAT(RowsOf(forest),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3, 4), ElementsAre(5)));
}

TEST(ReferenceTreesTest, TrlClosesAllRowsWhereNoneHasRoom) {
  // The first two groups have rows of 20 and 11 tokens. Sequence 4 goes where there is less
  // attention, and sequence 5 to its group.
  ForestPass forest = ThreeGroups(Sharding::kTrlTree, 2, 24);
  EXPECT_THAT(RowsOf(forest), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4, 5)));
  // Where sequence 4 has no room it begins a slot, in which one row is empty.
  ForestPass tight = ThreeGroups(Sharding::kTrlTree, 2, 22);
  tight.options.allow_empty_microbatches = true;
  EXPECT_THAT(RowsOf(tight),
              ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5), ElementsAre(2, 3), ElementsAre()));
}

TEST(ReferenceTreesTest, ArtLeavesRowsFull) {
  // Groups by their longest sequence: 0 and 1 take 20 tokens. Sequence 4 begins a row; 5 leaves the
  // first one fuller than that of its own group. 2 and 3 then have room beside 4.
  ForestPass forest = ThreeGroups(Sharding::kArtPrefixTree, 2, 24);
  EXPECT_THAT(RowsOf(forest), ElementsAre(ElementsAre(0, 1, 5), ElementsAre(2, 3, 4)));
}

}  // namespace
}  // namespace batchplan
