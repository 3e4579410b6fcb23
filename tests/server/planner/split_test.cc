#include "server/planner/split.h"

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

TEST(SplitTest, CutsTheManifestInOrder) {
  const auto split = SplitIntoMiniBatches(std::vector<uint32_t>(6, 1), {.size = 2});
  ASSERT_EQ(split->size(), 3);
  EXPECT_THAT(Values((*split)[1]), ElementsAre(2, 3));
}

TEST(SplitTest, ASizeOfZeroIsOneMiniBatch) {
  const auto split = SplitIntoMiniBatches(std::vector<uint32_t>(3, 1), {});
  ASSERT_EQ(split->size(), 1);
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0, 1, 2));
}

TEST(SplitTest, ASizeThatDoesNotDivideIsRefusedNamingBothNumbers) {
  const auto split = SplitIntoMiniBatches(std::vector<uint32_t>(7, 1), {.size = 3});
  EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(split.status().message()),
              HasSubstr("mini_batches.size is 3, which does not divide the manifest's 7"));
}

TEST(SplitTest, AShuffleDependsOnItsSeedAndKeepsEverySequence) {
  const std::vector<uint32_t> lengths(100, 1);
  const auto shuffle = [&](uint64_t seed) {
    return Values((*SplitIntoMiniBatches(lengths, {.order = Order::kShuffled, .seed = seed}))[0]);
  };
  std::vector<uint32_t> order = shuffle(1);
  EXPECT_EQ(order, shuffle(1));
  EXPECT_NE(order, shuffle(2));
  std::sort(order.begin(), order.end());
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(SplitTest, DroppedSequencesLeaveAfterTheCut) {
  const auto split = SplitIntoMiniBatches(std::vector<uint32_t>{5, 0, 5, 5}, {.size = 2});
  EXPECT_THAT(Values((*split)[0]), ElementsAre(0));
  EXPECT_THAT(Values((*split)[1]), ElementsAre(2, 3));
}

TEST(SplitTest, AMiniBatchThatDropsEmptyIsRefused) {
  const auto split = SplitIntoMiniBatches(std::vector<uint32_t>{5, 5, 0, 0}, {.size = 2});
  EXPECT_THAT(std::string(split.status().message()), HasSubstr("leaves mini-batch 1 without"));
}

}  // namespace
}  // namespace batchplan
