#include "server/planner/place/batch_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Passes over two mini-batches of two sequences each, on two ranks.
class BatchPassesTest : public ::testing::Test {
 protected:
  BatchPassesTest() {
    options_.topology.data_parallel = 2;
    for (uint32_t i = 0; i < 4; ++i) {
      mini_batches_.Push(SequenceIndex(i));
      if (i % 2 == 1) mini_batches_.Close();
    }
  }

  PassOptions& AddPass() {
    PassOptions& pass = options_.passes.emplace_back();
    pass.max_tokens_per_microbatch = 10;
    return pass;
  }

  std::vector<Pass> Passes() {
    std::vector<Pass> passes;
    for (size_t i = 0; i < options_.passes.size(); ++i) {
      passes.push_back(*Pass::Create(manifest_, options_, i, {{.capacity = 10}}, planned_,
                                     alignments_, groups_, mini_batches_.size()));
    }
    return passes;
  }

  const std::vector<uint32_t> lengths_ = {1, 2, 3, 4};
  const Manifest manifest_{.lengths = lengths_};
  const Groups groups_{manifest_, GroupPolicy::kIgnore};
  const PlannedLengths planned_{.lengths = lengths_, .excluded = {}};
  Alignments alignments_{planned_.lengths};
  PlanOptions options_;
  SequenceLists mini_batches_;
};

TEST_F(BatchPassesTest, TheFirstPassThatKeepsToMiniBatchesLeads) {
  AddPass().ignore_mini_batches = true;
  AddPass();
  AddPass();
  const std::vector<Pass> all = Passes();
  const BatchPasses passes(all, mini_batches_);
  EXPECT_EQ(&passes.lead(), &all[1]);
  EXPECT_THAT(passes.within(), ElementsAre(&all[1], &all[2]));
  EXPECT_THAT(passes.over_all(), ElementsAre(&all[0]));
  EXPECT_EQ(passes.mini_batches(), 2);
  EXPECT_THAT(passes.MiniBatch(1), ElementsAre(SequenceIndex(2), SequenceIndex(3)));
}

TEST_F(BatchPassesTest, IfNoPassKeepsToMiniBatchesAllHaveTheWholeBatch) {
  AddPass().ignore_mini_batches = true;
  AddPass().ignore_mini_batches = true;
  const std::vector<Pass> all = Passes();
  const BatchPasses passes(all, mini_batches_);
  EXPECT_THAT(passes.within(), ElementsAre(&all[0], &all[1]));
  EXPECT_TRUE(passes.over_all().empty());
  EXPECT_EQ(passes.mini_batches(), 1);
  EXPECT_EQ(passes.MiniBatch(0).size(), 4);
}

TEST_F(BatchPassesTest, RefusesMoreEmptyMicrobatchesThanAPlanMayHave) {
  options_.allow_empty_microbatches = true;
  AddPass();
  AddPass().min_microbatches = kMaxEmptyMicrobatches / 4;
  const std::vector<Pass> all = Passes();
  const BatchPasses passes(all, mini_batches_);
  EXPECT_TRUE(passes.CheckFewest().ok());
  EXPECT_TRUE(passes.CheckTotal({.microbatches = kMaxEmptyMicrobatches + 8, .slots = 0}).ok());
  const absl::Status status =
      passes.CheckTotal({.microbatches = kMaxEmptyMicrobatches + 9, .slots = 0});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("(data_parallel 2, 2 mini-batches, 2 passes)"));
}

TEST_F(BatchPassesTest, TwinsDifferInNothingThatFillsMicrobatches) {
  AddPass().name = "a";
  AddPass().name = "b";
  AddPass().max_tokens_per_microbatch = 8;
  AddPass().sharding = Sharding::kLpt;
  const std::vector<Pass> all = Passes();
  const BatchPasses passes(all, mini_batches_);
  EXPECT_THAT(TwinsOf(passes.within(), 0), ElementsAre(0, 0, 2, 0));
  EXPECT_THAT(TwinsOf(passes.within(), 1), ElementsAre(0, 1, 2, 1));
}

}  // namespace
}  // namespace batchplan
