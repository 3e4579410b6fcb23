// The examples of the documents from which batchplan is made, by their names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::PackedOptions;
using ::testing::UnorderedElementsAre;

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

// "ROLL Dynamic Batching": two ranks, lengths rounded to 2, compared with rows of 10. The document
// draws micro-batches of 12 tokens under a budget of 10; under its own rule each rank gets four.
PassPlan RollDynamicExample(uint32_t budget) {
  const std::vector<uint32_t> lengths = {7, 6, 8, 5, 1, 3, 8, 6};
  PlanOptions options;
  options.topology.data_parallel = 2;
  options.passes = {PresetPass("roll_dynamic", options.topology).value()};
  options.passes[0].max_tokens_per_microbatch = budget;
  options.passes[0].length_multiple = 2;
  return MakeCheckedPlan(Manifest{.lengths = lengths, .pad_to = 10}, options)->passes[0];
}

TEST(WorkedExamplesTest, RollDynamicBatchingAsDrawnNeedsABudgetOf12) {
  const PassPlan pass = RollDynamicExample(12);
  EXPECT_THAT(LengthsOf(pass), ElementsAre(ElementsAre(1, 5), ElementsAre(6), ElementsAre(8),
                                           ElementsAre(3, 6), ElementsAre(7), ElementsAre(8)));
  EXPECT_THAT(pass.row_widths, ElementsAre(6, 8, 8, 6, 8, 8));
  EXPECT_EQ(pass.metrics.naive_tokens, 80);
  EXPECT_EQ(pass.metrics.scheduled_tokens, 56);
  EXPECT_DOUBLE_EQ(pass.metrics.padding_removed, 0.3);
}

TEST(WorkedExamplesTest, RollDynamicBatchingWithinItsBudgetOf10) {
  const PassPlan pass = RollDynamicExample(10);
  EXPECT_THAT(LengthsOf(pass),
              ElementsAre(ElementsAre(1), ElementsAre(5), ElementsAre(6), ElementsAre(8),
                          ElementsAre(3), ElementsAre(6), ElementsAre(7), ElementsAre(8)));
  EXPECT_THAT(pass.row_widths, ElementsAre(4, 6, 8, 8, 4, 6, 8, 8));
  EXPECT_EQ(pass.metrics.scheduled_tokens, 52);
}

// The same document, "Support Virtual Pipeline Model Parallel": with two stages, three
// micro-batches become four by splitting the first. The halves get their own widths here, not the
// parent's 6.
TEST(WorkedExamplesTest, RollDynamicBatchingSplitsForVirtualPipelines) {
  PlanOptions options;
  options.topology = {.data_parallel = 2, .pipeline_parallel = 2, .virtual_pipeline = 2};
  options.passes = {PresetPass("roll_dynamic", options.topology).value()};
  options.passes[0].max_tokens_per_microbatch = 12;
  options.passes[0].length_multiple = 2;
  const PassPlan pass = MakeCheckedPlan({7, 6, 8, 5, 1, 3, 8, 6}, options)->passes[0];
  EXPECT_THAT(LengthsOf(pass),
              ElementsAre(ElementsAre(1), ElementsAre(5), ElementsAre(6), ElementsAre(8),
                          ElementsAre(3), ElementsAre(6), ElementsAre(7), ElementsAre(8)));
  EXPECT_THAT(pass.row_widths, ElementsAre(4, 6, 8, 8, 4, 6, 8, 8));
}

// "Sequence Packing and Dynamic Batching" (NeMo-RL), the figure under "Dynamic Batching".
TEST(WorkedExamplesTest, NemoRlDynamicBatchingFigure) {
  PlanOptions options;
  options.passes = {PresetPass("nemo_rl_dynamic", options.topology).value()};
  options.passes[0].max_tokens_per_microbatch = 16;
  const PassPlan pass = MakeCheckedPlan({2, 4, 7, 6, 3, 4}, options)->passes[0];
  EXPECT_THAT(LengthsOf(pass),
              UnorderedElementsAre(UnorderedElementsAre(7, 6), UnorderedElementsAre(4, 4, 3, 2)));
}

}  // namespace
}  // namespace batchplan
