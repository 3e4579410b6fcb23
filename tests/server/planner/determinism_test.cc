// The same request gives the same plan: across runs, threads, build types and compilers. The
// fingerprints below were written once; every preset's build of this test compares against them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
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

// A balanced request of one kind.
struct BalancedGolden {
  std::string name;
  void (*change)(PlanOptions&);
  std::string fingerprint;
};

void PrintTo(const BalancedGolden& golden, std::ostream* out) { *out << golden.name; }

class BalancedDeterminismTest : public ::testing::TestWithParam<BalancedGolden> {
 protected:
  BalancedDeterminismTest() {
    for (uint32_t i = 0; i < lengths_.size(); ++i) group_ids_.push_back(i / 4);
    GetParam().change(options_);
    // Only policies that heed groups get any.
    if (options_.mini_batches.groups == GroupPolicy::kIgnore) group_ids_.clear();
  }

  Manifest manifest() const { return {.lengths = lengths_, .group_ids = group_ids_}; }

  PlanOptions options_ = Options(Packer::kBalanced, Sharding::kBalanced);
  std::vector<uint32_t> lengths_ = Lengths();
  std::vector<uint32_t> group_ids_;
};

TEST_P(BalancedDeterminismTest, FingerprintIsTheOneWrittenDown) {
  const auto plan = MakeCheckedPlan(manifest(), options_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fingerprint, GetParam().fingerprint);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, BalancedDeterminismTest,
    ::testing::Values(
        BalancedGolden{"Lockstep", [](PlanOptions& o) { o.passes[0].rows = RowPadding::kNone; },
                       "b130253a090daf35035f5d6be8780073c7d987671e4cd86c614cd763b4181300"},
        BalancedGolden{"LongestRows", [](PlanOptions&) {},
                       "d8244055690c004ffb15b6bd45fff5f6b2d161d156a85c4cffda7e97ffa01ff4"},
        BalancedGolden{"Fast", [](PlanOptions& o) { o.effort = Effort::kFast; },
                       "06aba38190018437d87133309f12f24894752595a6293ea7a1be0d7260bea1d6"},
        BalancedGolden{"Thorough", [](PlanOptions& o) { o.effort = Effort::kThorough; },
                       "dc96a79c482415f791883132c706421dc4b44c473d8bb7fcb585bf4507869e2f"},
        BalancedGolden{"Accumulated",
                       [](PlanOptions& o) { o.synchronization = Synchronization::kAccumulated; },
                       "1f0bc221e08e1553ee9bfa652902315b641ad4c44acbdd79b5bcb8bf54b0ff8e"},
        BalancedGolden{"Pipelines",
                       [](PlanOptions& o) {
                         o.synchronization = Synchronization::kAccumulated;
                         o.topology.pipeline_parallel = 4;
                         o.cost_model.per_microbatch = 1024;
                         o.passes[0].order = MicrobatchOrder::kPipeline;
                         o.passes[0].rows = RowPadding::kNone;
                       },
                       "0733939fd1cdadf20c180e8479a45bf82c7fd9e4beb675bdad4712adfde7117e"},
        BalancedGolden{"InterleavedPipelinesInLockstep",
                       [](PlanOptions& o) {
                         o.topology.pipeline_parallel = 2;
                         o.topology.virtual_pipeline = 2;
                         o.pipeline.stage_shares = {1, 1, 1, 1.5};
                         o.pipeline.transfer = 30;
                         o.cost_model.per_microbatch = 1024;
                         o.passes[0].order = MicrobatchOrder::kPipeline;
                       },
                       "2867169e9e59217d8fbc4fa9f147e3aad8d005f6efc18de8f83d5c4685bad1cf"},
        BalancedGolden{"SomeOfWhatWaits",
                       [](PlanOptions& o) {
                         o.mini_batches = {};
                         o.selection = {.sequences = 1500, .max_overtaking = 300};
                       },
                       "02c6f3ed6a217816e250e1c3527e4b6b49b9a11a37d61ecd13dee569da3afa12"},
        BalancedGolden{"GroupsThatWaitWithinTokens",
                       [](PlanOptions& o) {
                         o.mini_batches = {.groups = GroupPolicy::kSameMiniBatch};
                         o.selection = {.max_tokens = 1'000'000, .max_overtaking = 20};
                       },
                       "143a0fe6518efbadbc153e36f6b02f1f0b78fdc996d438131d7558f2cf9ccd16"},
        BalancedGolden{"Delayed",
                       [](PlanOptions& o) { o.mini_batches = {.size = 256, .max_delay = 3}; },
                       "22170c7b8079fc076ced11e5ff25d8d0d70612dc30a9bee488789a2e810d71c3"},
        BalancedGolden{"CostOfASequence", [](PlanOptions& o) { o.cost_model.per_sequence = 2000; },
                       "02d3a3468c065e695dd9e397aa944feb404c5e6766a043dfc7c1d614d28a91f8"},
        BalancedGolden{"EqualCounts",
                       [](PlanOptions& o) { o.passes[0].equal_sequence_counts = true; },
                       "53025ca8525564a1934371f822eb0dc58bfa48073d218b6cdd66298b6f13486a"},
        BalancedGolden{"AccumulatedEqualCounts",
                       [](PlanOptions& o) {
                         o.synchronization = Synchronization::kAccumulated;
                         o.passes[0].equal_sequence_counts = true;
                       },
                       "1121c3e909ccb8195f1b282530a320e6c991586a1e127340af579450582eb82a"},
        BalancedGolden{"GroupsOnARank",
                       [](PlanOptions& o) { o.mini_batches.groups = GroupPolicy::kSameRank; },
                       "83857131c44e37d9ea047dbca1eb9573e39598e027f110004d875e27d46502e4"},
        BalancedGolden{"GroupsInAMicrobatch",
                       [](PlanOptions& o) {
                         o.mini_batches.groups = GroupPolicy::kSameMicrobatch;
                         o.passes[0].max_tokens_per_microbatch = 32800;
                       },
                       "667977fc7a4241b5ae825b85797bbc5a9e5e8e43232980b3d59551ede70c9f8d"},
        BalancedGolden{"FewSequencesAMicrobatch",
                       [](PlanOptions& o) { o.passes[0].max_sequences_per_microbatch = 8; },
                       "ffa806d9c01b9999c0c841b5cd554bbc6d2c6dd0227ce69fd7b8eb3e27758c36"},
        BalancedGolden{"OnTokens",
                       [](PlanOptions& o) { o.passes[0].balance_on = BalanceOn::kTokens; },
                       "360b86a615f8454ecea445876f05347069508bbc854b360eefb8914d978e1fe6"},
        BalancedGolden{"Padded", [](PlanOptions& o) { o.passes[0].layout = Layout::kPadded; },
                       "ae150d5017beb98870a324270e9b84e1791bb7549dda13cf9e767f1f764690d0"},
        BalancedGolden{"PaddedAccumulated",
                       [](PlanOptions& o) {
                         o.passes[0].layout = Layout::kPadded;
                         o.synchronization = Synchronization::kAccumulated;
                       },
                       "e8948b35bda7bbecfecbf1ff546a39818d55b7e5507c4a0785ca98c6b89d3efe"},
        BalancedGolden{"OverlongAlone",
                       [](PlanOptions& o) {
                         o.overlong = OverlongPolicy::kAlone;
                         o.passes[0].max_tokens_per_microbatch = 4100;
                         o.passes[0].rows = RowPadding::kNone;
                       },
                       "b1ffbd89b2c5dd88fa8bc37830a1144d749cea44580d1579266cfc834909b08a"},
        BalancedGolden{"Stratified",
                       [](PlanOptions& o) { o.mini_batches.order = Order::kStratified; },
                       "fdf391c8999cbe69fd67cba6299fb064b56f44c6d5d4b7336a7b4254592f41cd"},
        BalancedGolden{"SeveralPasses",
                       [](PlanOptions& o) {
                         o.passes.push_back(o.passes[0]);
                         o.passes[0].name = "train";
                         o.passes[1].name = "logprob";
                         o.passes[1].max_tokens_per_microbatch = 16400;
                         o.passes[1].ignore_mini_batches = true;
                       },
                       "ff825750e2a59431e66d52ebf72f1aaebcc6af6e687e59146142fb7fad2d72a0"}),
    [](const ::testing::TestParamInfo<BalancedGolden>& info) { return info.param.name; });

}  // namespace
}  // namespace batchplan
