#include "server/planner/request/lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchplan {
namespace {

using ::testing::HasSubstr;

uint32_t MultipleOf(uint32_t cp, uint32_t tp, bool sequence_parallel, uint32_t length_multiple) {
  Topology topology{
      .context_parallel = cp, .tensor_parallel = tp, .sequence_parallel = sequence_parallel};
  PassOptions pass;
  pass.max_tokens_per_microbatch = 1 << 20;
  pass.length_multiple = length_multiple;
  return LengthMultiple(topology, pass, "passes[0]").value();
}

TEST(LengthsTest, ContextParallelismNeedsTwoChunksARank) {
  EXPECT_EQ(MultipleOf(2, 1, false, 1), 4);
  EXPECT_EQ(MultipleOf(8, 4, false, 1), 16);
}

TEST(LengthsTest, SequenceParallelismNeedsTensorParallelOnTop) {
  EXPECT_EQ(MultipleOf(2, 4, true, 1), 16);
  EXPECT_EQ(MultipleOf(1, 4, true, 1), 4);
}

TEST(LengthsTest, WithoutContextOrSequenceParallelismNothingIsDemanded) {
  EXPECT_EQ(MultipleOf(1, 8, false, 1), 1);
  EXPECT_EQ(MultipleOf(1, 1, true, 1), 1);
}

TEST(LengthsTest, TheCallersMultipleJoinsAsLeastCommonMultiple) {
  EXPECT_EQ(MultipleOf(2, 1, false, 16), 16);
  EXPECT_EQ(MultipleOf(3, 1, false, 16), 48);
  EXPECT_EQ(MultipleOf(1, 1, false, 128), 128);
}

TEST(LengthsTest, RoundsUpAndDownToMultiples) {
  EXPECT_EQ(AlignUp(0, 4), 0);
  EXPECT_EQ(AlignUp(1, 4), 4);
  EXPECT_EQ(AlignUp(8, 4), 8);
  EXPECT_EQ(AlignDown(11, 4), 8);
}

TEST(LengthsTest, AMultipleAboveTheBudgetIsRefusedNamingBoth) {
  PassOptions pass;
  pass.max_tokens_per_microbatch = 100;
  const auto multiple = LengthMultiple({.context_parallel = 64}, pass, "passes[3]");
  EXPECT_EQ(multiple.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(multiple.status().message()),
      HasSubstr("passes[3].max_tokens_per_microbatch is 100, below the length multiple 128"));
}

TEST(LengthsTest, TheLargestSizesDoNotOverflow) {
  PassOptions pass;
  pass.max_tokens_per_microbatch = 4294967295;
  pass.length_multiple = 4294967291;
  const Topology topology{.context_parallel = kMaxParallelSize,
                          .tensor_parallel = kMaxParallelSize,
                          .sequence_parallel = true};
  EXPECT_EQ(LengthMultiple(topology, pass, "passes[0]").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace batchplan
