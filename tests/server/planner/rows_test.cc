#include "server/planner/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PassOptions Pass(RowPadding rows, std::vector<uint32_t> buckets = {}) {
  PassOptions pass;
  pass.max_tokens_per_microbatch = 30;
  pass.rows = rows;
  pass.buckets = std::move(buckets);
  return pass;
}

std::vector<uint32_t> Padded(const PassOptions& pass) {
  std::vector<uint32_t> rows = {4, 12, 20};
  PadRows(pass, 4, rows);
  return rows;
}

TEST(RowsTest, ArePaddedAsAsked) {
  EXPECT_THAT(Padded(Pass(RowPadding::kNone)), ElementsAre(4, 12, 20));
  EXPECT_THAT(Padded(Pass(RowPadding::kLongest)), ElementsAre(20, 20, 20));
  EXPECT_THAT(Padded(Pass(RowPadding::kCapacity)), ElementsAre(28, 28, 28));
  EXPECT_THAT(Padded(Pass(RowPadding::kBuckets, {8, 12, 24})), ElementsAre(8, 12, 24));
}

TEST(RowsTest, HoldNoMoreThanTheBudgetOrTheWidestBucket) {
  EXPECT_EQ(RowCapacity(Pass(RowPadding::kNone), 4), 28);
  EXPECT_EQ(RowCapacity(Pass(RowPadding::kBuckets, {8, 24}), 4), 24);
}

TEST(RowsTest, ABucketThatBreaksAlignmentIsRefused) {
  const absl::Status status =
      CheckBucketsFit(Pass(RowPadding::kBuckets, {8, 15}), 4, 8, "passes[0]");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("passes[0].packed.buckets[1] is 15"));
}

TEST(RowsTest, BucketsThatDoNotHoldTheLongestSequenceAreRefused) {
  const absl::Status status =
      CheckBucketsFit(Pass(RowPadding::kBuckets, {8, 16}), 4, 20, "passes[0]");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ends at 16, but the longest sequence takes 20"));
}

}  // namespace
}  // namespace batchplan
