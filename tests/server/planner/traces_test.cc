// Real length traces, where they are at hand: files of one length a line.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using testing::MakeCheckedPlan;
using testing::PackedOptions;

std::vector<uint32_t> ReadTrace(const std::string& name) {
  std::ifstream file(std::filesystem::path(BATCHPLAN_TRACES) / name);
  std::vector<uint32_t> lengths;
  for (uint32_t length; file >> length;) lengths.push_back(length);
  return lengths;
}

class TracesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TracesTest, PlansKeepEveryPromiseWithEveryPacker) {
  const std::vector<uint32_t> lengths = ReadTrace(GetParam());
  if (lengths.empty()) GTEST_SKIP() << "no trace " << GetParam() << " in " << BATCHPLAN_TRACES;
  for (const Packer packer :
       {Packer::kConcatenative, Packer::kFirstFitDecreasing, Packer::kFirstFitShuffle,
        Packer::kModifiedFirstFitDecreasing, Packer::kBestFitDecreasing}) {
    for (const Sharding sharding : {Sharding::kDealBins, Sharding::kContiguous}) {
      const auto plan = MakeCheckedPlan(lengths, PackedOptions(16384, packer, 16, sharding));
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_GT(plan->passes[0].metrics.bin_utilization, 0.8);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TracesTest, ::testing::Values("azure_conv.csv", "gsm8k_sft.csv"),
                         [](const auto& info) {
                           return std::string(info.param, std::string(info.param).find('.'));
                         });

}  // namespace
}  // namespace batchplan
