// The worked examples of the documents that batchplan is made from, by their names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::PackedOptions;

// "Sequence Packing in ROLL", 2.2.3 "Complete packing example": CP 2, TP 1.
TEST(WorkedExamplesTest, RollCompletePackingExample) {
  PlanOptions options = PackedOptions(20, Packer::kConcatenative);
  options.topology.context_parallel = 2;
  const PassPlan pass = MakeCheckedPlan({2, 4, 6, 1}, options)->passes[0];
  EXPECT_EQ(pass.length_multiple, 4);
  EXPECT_THAT(LengthsOf(pass), ElementsAre(ElementsAre(2, 4, 6, 1)));
  std::vector<uint32_t> offsets = {0};
  for (uint32_t length : pass.sequence_lengths) {
    offsets.push_back(offsets.back() + (length + 3) / pass.length_multiple * pass.length_multiple);
  }
  EXPECT_THAT(offsets, ElementsAre(0, 4, 8, 16, 20));
  EXPECT_THAT(pass.row_widths, ElementsAre(20));
  EXPECT_EQ(pass.metrics.aligned_tokens, 20);
  EXPECT_EQ(pass.metrics.true_tokens, 13);
}

// "Sequence Packing and Dynamic Batching" (NeMo-RL), the figure under "Sequence Packing".
TEST(WorkedExamplesTest, NemoRlPackedFigure) {
  for (const Packer packer : {Packer::kConcatenative, Packer::kFirstFitDecreasing,
                              Packer::kModifiedFirstFitDecreasing, Packer::kBestFitDecreasing}) {
    const PassPlan pass = MakeCheckedPlan({3, 6, 2, 3}, PackedOptions(15, packer))->passes[0];
    EXPECT_EQ(pass.metrics.microbatches, 1);
    EXPECT_EQ(pass.metrics.true_tokens, 14);
    EXPECT_EQ(pass.metrics.naive_tokens, 24);
    EXPECT_TRUE(pass.metrics.certified_optimal);
  }
}

// The same document, "Understanding CP load balancing": lengths 5, 8, 1, 3 padded to multiples
// of 4.
TEST(WorkedExamplesTest, NemoRlContextParallelPacking) {
  PlanOptions options = PackedOptions(24, Packer::kConcatenative);
  options.topology.context_parallel = 2;
  const PassPlan pass = MakeCheckedPlan({5, 8, 1, 3}, options)->passes[0];
  EXPECT_THAT(pass.row_widths, ElementsAre(8 + 8 + 4 + 4));
}

}  // namespace
}  // namespace batchplan
