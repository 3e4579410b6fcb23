// The same request gives the same plan: across runs, threads, build types and compilers. The
// fingerprints below were written once; every preset's build of this test compares against them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::MakeCheckedPlan;
using testing::PackedOptions;

// A request in which every coefficient, seed and rounding counts.
PlanOptions Options(Packer packer, Sharding sharding) {
  PlanOptions options = PackedOptions(8200, packer, 4, sharding);
  options.topology.context_parallel = 2;
  options.topology.tensor_parallel = 2;
  options.topology.sequence_parallel = true;
  options.mini_batches = {.size = 1024, .order = Order::kShuffled, .seed = 20};
  options.cost_model = {.per_token = 0.1, .per_token_squared = 1.0 / 30011, .per_microbatch = 3.3};
  options.passes[0].rows = RowPadding::kLongest;
  options.passes[0].order = MicrobatchOrder::kSmallAtBothEnds;
  return options;
}

std::vector<uint32_t> Lengths() { return testing::ZipfLengths(2048, 11); }

struct Golden {
  std::string name;
  Packer packer;
  Sharding sharding;
  std::string fingerprint;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

class DeterminismTest : public ::testing::TestWithParam<Golden> {};

TEST_P(DeterminismTest, FingerprintIsTheOneWrittenDown) {
  const auto plan = MakeCheckedPlan(Lengths(), Options(GetParam().packer, GetParam().sharding));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fingerprint, GetParam().fingerprint);
}

TEST_P(DeterminismTest, ThreadsAtOnceMakeTheSamePlan) {
  const std::vector<uint32_t> lengths = Lengths();
  const PlanOptions options = Options(GetParam().packer, GetParam().sharding);
  std::vector<std::string> fingerprints(8);
  std::vector<std::thread> threads;
  for (std::string& fingerprint : fingerprints) {
    threads.emplace_back(
        [&] { fingerprint = MakePlan({.lengths = lengths}, options)->fingerprint; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(fingerprints, ::testing::Each(GetParam().fingerprint));
}

INSTANTIATE_TEST_SUITE_P(
    Packers, DeterminismTest,
    ::testing::Values(
        Golden{"ConcatenativeDealt", Packer::kConcatenative, Sharding::kDealBins,
               "c139d2546701f29cb1c709e0893cbf56ca5da223fa87c54d669334a057f1ce05"},
        Golden{"ConcatenativeContiguous", Packer::kConcatenative, Sharding::kContiguous,
               "ff4a4fb0465ca5e7bdbfdf66021a0a4ee54c364416ce32fcdb7b5f628b06b7f3"},
        Golden{"FirstFitDecreasingDealt", Packer::kFirstFitDecreasing, Sharding::kDealBins,
               "844e0d3bb86f32e36687b69e6b8a05768dfbd0321feca02e0944dfd7caaad930"},
        Golden{"FirstFitShuffleDealt", Packer::kFirstFitShuffle, Sharding::kDealBins,
               "fe59041f5e099587a5a978d11725ffe2d7504a36bde551b58221037084919ffe"},
        Golden{"FirstFitShuffleContiguous", Packer::kFirstFitShuffle, Sharding::kContiguous,
               "b656290621e64d692f574012efb67e1f5d03b4066a7637a83beb73d9057c05d3"},
        Golden{"ModifiedFirstFitDealt", Packer::kModifiedFirstFitDecreasing, Sharding::kDealBins,
               "844e0d3bb86f32e36687b69e6b8a05768dfbd0321feca02e0944dfd7caaad930"},
        Golden{"BestFitDecreasingDealt", Packer::kBestFitDecreasing, Sharding::kDealBins,
               "0a38fbbf806b2a7c88b8dc533e1cbd02644ab98cbc550e9a9be068375012294e"}),
    [](const ::testing::TestParamInfo<Golden>& info) { return info.param.name; });

}  // namespace
}  // namespace batchplan
