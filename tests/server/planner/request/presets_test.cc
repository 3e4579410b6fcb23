#include "server/planner/request/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchplan {
namespace {

using ::testing::HasSubstr;

TEST(PresetsTest, NemoRlPackingIsModifiedFirstFitDealt) {
  const PassOptions pass = PresetPass("nemo_rl_packing", {}).value();
  EXPECT_EQ(pass.packer, Packer::kModifiedFirstFitDecreasing);
  EXPECT_EQ(pass.sharding, Sharding::kDealBins);
  EXPECT_EQ(pass.rows, RowPadding::kNone);
}

TEST(PresetsTest, NemoRlPackingPadsRowsForPipelines) {
  EXPECT_EQ(PresetPass("nemo_rl_packing", {.pipeline_parallel = 2})->rows, RowPadding::kLongest);
}

TEST(PresetsTest, AnUnsetPresetIsBalanced) {
  EXPECT_EQ(PresetPass("", {})->sharding, Sharding::kBalanced);
  EXPECT_EQ(PresetPass("balanced", {})->packer, Packer::kBalanced);
}

TEST(PresetsTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const absl::Status status = PresetPass("nemo", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("preset is \"nemo\", which is none of "));
  for (absl::string_view name : kPresetNames) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(name)));
  }
}

TEST(PresetsTest, AnUnknownNameIsQuotedWithoutControlCharacters) {
  const absl::Status status = PresetPass("x\x1b[2J\n", {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("preset is \"x\\033[2J\\n\", which"));
}

TEST(PresetsTest, AKnownNameIsNeverUnknown) {
  for (absl::string_view name : kPresetNames) EXPECT_TRUE(PresetPass(name, {}).ok()) << name;
}

}  // namespace
}  // namespace batchplan
