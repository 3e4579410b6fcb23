#include "server/planner/split/mini_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint32_t> Values(std::span<const SequenceIndex> sequences) {
  std::vector<uint32_t> values;
  for (SequenceIndex sequence : sequences) values.push_back(sequence.value());
  return values;
}

absl::StatusOr<SequenceLists> Split(const std::vector<uint32_t>& planned_lengths,
                                    const MiniBatching& options,
                                    const std::vector<uint32_t>& group_ids = {}) {
  const Manifest manifest{.lengths = planned_lengths, .group_ids = group_ids};
  return SplitIntoMiniBatches(manifest, planned_lengths, Groups(manifest, options.policy()),
                              options);
}

TEST(MiniBatchesTest, CutsTheManifestInOrder) {
  const auto split = Split(std::vector<uint32_t>(6, 1), {.size = 2});
  ASSERT_EQ(split->size(), 3);
  EXPECT_THAT(Values((*split)[1]), ElementsAre(2, 3));
}

TEST(MiniBatchesTest, ASizeOfZeroIsOneMiniBatch) {
  const auto split = Split(std::vector<uint32_t>(3, 1), {});
  ASSERT_EQ(split->size(), 1);
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0, 1, 2));
}

TEST(MiniBatchesTest, ASizeThatDoesNotDivideIsRefusedNamingBothNumbers) {
  const auto split = Split(std::vector<uint32_t>(7, 1), {.size = 3});
  EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(split.status().message()),
              HasSubstr("mini_batches.size is 3, which does not divide the manifest's 7"));
}

TEST(MiniBatchesTest, AShuffleDependsOnItsSeedAndKeepsEverySequence) {
  const std::vector<uint32_t> lengths(100, 1);
  const auto shuffle = [&](uint64_t seed) {
    return Values((*Split(lengths, {.order = Order::kShuffled, .seed = seed}))[0]);
  };
  std::vector<uint32_t> order = shuffle(1);
  EXPECT_EQ(order, shuffle(1));
  EXPECT_NE(order, shuffle(2));
  std::sort(order.begin(), order.end());
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(MiniBatchesTest, StrataAscendByLengthAndEqualOnesKeepTheirOrder) {
  for (const uint64_t seed : {0, 7}) {
    const auto split = Split(std::vector<uint32_t>{5, 1, 3, 1, 9, 3},
                             {.size = 2, .order = Order::kStratified, .seed = seed});
    ASSERT_EQ(split->size(), 3);
    EXPECT_THAT(Values((*split)[0]), ElementsAre(1, 3));
    EXPECT_THAT(Values((*split)[1]), ElementsAre(2, 5));
    EXPECT_THAT(Values((*split)[2]), ElementsAre(0, 4));
  }
}

TEST(MiniBatchesTest, AGroupStandsInTheStratumOfItsLongest) {
  const MiniBatching options = {
      .size = 3, .order = Order::kStratified, .groups = GroupPolicy::kSameMiniBatch};
  const auto split = Split({8, 1, 7, 7, 6, 1}, options, {1, 1, 1, 2, 2, 2});
  ASSERT_EQ(split->size(), 2);
  EXPECT_THAT(Values((*split)[0]), ElementsAre(3, 4, 5));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(0, 1, 2));
  const auto torn = Split({4, 1, 1, 2, 2, 3}, options, {9, 2, 2, 3, 3, 5});
  EXPECT_THAT(std::string(torn.status().message()),
              HasSubstr("group 3 of 2 sequences comes where mini-batch 0 has room for 1"));
}

TEST(MiniBatchesTest, StrataAreOfTheLengthsBeforeAnyIsCutOrDropped) {
  const std::vector<uint32_t> lengths = {9, 2, 30, 20};
  const Manifest manifest{.lengths = lengths};
  const std::vector<uint32_t> planned = {9, 2, 0, 10};
  const auto split = SplitIntoMiniBatches(manifest, planned, Groups(manifest, GroupPolicy::kIgnore),
                                          {.size = 2, .order = Order::kStratified});
  EXPECT_THAT(Values((*split)[0]), ElementsAre(1, 0));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(3));
}

TEST(MiniBatchesTest, DroppedSequencesLeaveAfterTheCut) {
  const auto split = Split(std::vector<uint32_t>{5, 0, 5, 5}, {.size = 2});
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(2, 3));
}

TEST(MiniBatchesTest, AMiniBatchThatDropsEmptyIsRefused) {
  const auto split = Split(std::vector<uint32_t>{5, 5, 0, 0}, {.size = 2});
  EXPECT_THAT(std::string(split.status().message()), HasSubstr("leaves mini-batch 1 without"));
}

TEST(MiniBatchesTest, GroupsStandWhereTheirFirstMemberDoes) {
  const auto split = Split(std::vector<uint32_t>(6, 1),
                           {.size = 3, .groups = GroupPolicy::kSameMiniBatch}, {7, 9, 4, 7, 9, 7});
  ASSERT_EQ(split->size(), 2);
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0, 3, 5));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(1, 4, 2));
}

TEST(MiniBatchesTest, AShuffleMovesWholeGroups) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 40; ++i) ids.push_back(i % 10);
  const auto split = Split(
      std::vector<uint32_t>(40, 1),
      {.size = 8, .order = Order::kShuffled, .seed = 3, .groups = GroupPolicy::kSameMiniBatch},
      ids);
  ASSERT_EQ(split->size(), 5);
  for (size_t k = 0; k < 5; ++k) {
    const std::vector<uint32_t> members = Values((*split)[k]);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(members[i] % 10, members[i / 4 * 4] % 10);
  }
}

TEST(MiniBatchesTest, AGroupThatCrossesTheEndOfAMiniBatchIsRefused) {
  const auto split = Split(std::vector<uint32_t>(4, 1),
                           {.size = 2, .groups = GroupPolicy::kSameRank}, {5, 6, 6, 5});
  EXPECT_TRUE(split.ok());
  const auto torn = Split(std::vector<uint32_t>(4, 1),
                          {.size = 2, .groups = GroupPolicy::kSameRank}, {5, 6, 6, 8});
  EXPECT_THAT(
      std::string(torn.status().message()),
      HasSubstr("mini_batches.size is 2, but group 6 of 2 sequences comes where mini-batch 0 "
                "has room for 1"));
}

TEST(MiniBatchesTest, CountsGroupsWhateverTheyHold) {
  const auto split = Split(std::vector<uint32_t>(7, 1), {.group_count = 2}, {4, 9, 4, 6, 4, 8, 8});
  ASSERT_EQ(split->size(), 2);
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0, 2, 4, 1));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(3, 5, 6));
}

TEST(MiniBatchesTest, AGroupCountThatDoesNotDivideIsRefusedNamingBothNumbers) {
  const auto split = Split(std::vector<uint32_t>(5, 1), {.group_count = 2}, {1, 1, 2, 2, 3});
  EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(split.status().message()),
      HasSubstr("mini_batches.group_count is 2, which does not divide the manifest's 3 gr"));
}

TEST(MiniBatchesTest, TheLastOneMayBeSmaller) {
  const std::vector<uint32_t> lengths(7, 1);
  const auto split = Split(lengths, {.size = 3, .last = LastMiniBatch::kSmaller});
  ASSERT_EQ(split->size(), 3);
  EXPECT_THAT(Values((*split)[2]), ElementsAre(6));
  const auto large = Split(lengths, {.size = 30, .last = LastMiniBatch::kSmaller});
  ASSERT_EQ(large->size(), 1);
  EXPECT_EQ((*large)[0].size(), 7);
  for (const Order order : {Order::kPreserved, Order::kShuffled, Order::kStratified}) {
    const auto groups =
        Split(lengths, {.order = order, .group_count = 2, .last = LastMiniBatch::kSmaller},
              {1, 1, 2, 2, 3, 3, 3});
    ASSERT_EQ(groups->size(), 2);
    EXPECT_EQ((*groups)[0].size() + (*groups)[1].size(), 7);
    EXPECT_GE((*groups)[0].size(), 4);
  }
}

TEST(MiniBatchesTest, AreCountedAsTheyAreCut) {
  EXPECT_EQ(MiniBatchesOf({}, 7, 0), 1);
  EXPECT_EQ(MiniBatchesOf({.size = 3}, 7, 0), 2);
  EXPECT_EQ(MiniBatchesOf({.size = 3, .last = LastMiniBatch::kSmaller}, 7, 0), 3);
  EXPECT_EQ(MiniBatchesOf({.size = 9, .last = LastMiniBatch::kSmaller}, 7, 0), 1);
  EXPECT_EQ(MiniBatchesOf({.group_count = 2, .last = LastMiniBatch::kSmaller}, 7, 5), 3);
}

TEST(MiniBatchesTest, AGroupCountLeavesOutWholeGroupsThatAreDropped) {
  const std::vector<uint32_t> ids = {1, 1, 2, 2, 3, 3, 4};
  const std::vector<uint32_t> planned = {1, 1, 0, 0, 1, 1, 1};
  const auto split = Split(planned, {.group_count = 2}, ids);
  ASSERT_EQ(split->size(), 2);
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0, 1));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(4, 5, 6));
}

}  // namespace
}  // namespace batchplan
