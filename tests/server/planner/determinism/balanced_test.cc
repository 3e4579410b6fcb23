// Fingerprints of the balanced plans of ranks, or of groups of ranks that all have one size.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/server/planner/determinism/golden.h"

namespace batchplan {
namespace {

using testing::ExpectFingerprint;
using testing::GeneratedRequest;
using testing::Golden;

class BalancedDeterminismTest : public ::testing::TestWithParam<Golden> {};

TEST_P(BalancedDeterminismTest, FingerprintIsTheOneWrittenDown) {
  ExpectFingerprint(testing::RanksRequest(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Requests, BalancedDeterminismTest,
    ::testing::Values(
        Golden{"Lockstep",
               [](GeneratedRequest& r) { r.options.passes[0].rows = RowPadding::kNone; },
               "b130253a090daf35035f5d6be8780073c7d987671e4cd86c614cd763b4181300"},
        Golden{"LongestRows", [](GeneratedRequest&) {},
               "d8244055690c004ffb15b6bd45fff5f6b2d161d156a85c4cffda7e97ffa01ff4"},
        Golden{"Fast", [](GeneratedRequest& r) { r.options.effort = Effort::kFast; },
               "06aba38190018437d87133309f12f24894752595a6293ea7a1be0d7260bea1d6"},
        Golden{"Thorough", [](GeneratedRequest& r) { r.options.effort = Effort::kThorough; },
               "dc96a79c482415f791883132c706421dc4b44c473d8bb7fcb585bf4507869e2f"},
        Golden{
            "Accumulated",
            [](GeneratedRequest& r) { r.options.synchronization = Synchronization::kAccumulated; },
            "1f0bc221e08e1553ee9bfa652902315b641ad4c44acbdd79b5bcb8bf54b0ff8e"},
        Golden{"Pipelines",
               [](GeneratedRequest& r) {
                 r.options.synchronization = Synchronization::kAccumulated;
                 r.options.topology.pipeline_parallel = 4;
                 r.options.cost_model.per_microbatch = 1024;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
                 r.options.passes[0].rows = RowPadding::kNone;
               },
               "0733939fd1cdadf20c180e8479a45bf82c7fd9e4beb675bdad4712adfde7117e"},
        Golden{"InterleavedPipelinesInLockstep",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.topology.virtual_pipeline = 2;
                 r.options.pipeline.stage_shares = {1, 1, 1, 1.5};
                 r.options.pipeline.transfer = 30;
                 r.options.cost_model.per_microbatch = 1024;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "2867169e9e59217d8fbc4fa9f147e3aad8d005f6efc18de8f83d5c4685bad1cf"},
        Golden{"SomeOfWhatWaits",
               [](GeneratedRequest& r) {
                 r.options.mini_batches = {};
                 r.options.selection = {.sequences = 1500, .max_overtaking = 300};
               },
               "02c6f3ed6a217816e250e1c3527e4b6b49b9a11a37d61ecd13dee569da3afa12"},
        Golden{"GroupsThatWaitWithinTokens",
               [](GeneratedRequest& r) {
                 r.options.mini_batches = {.groups = GroupPolicy::kSameMiniBatch};
                 r.options.selection = {.max_tokens = 1'000'000, .max_overtaking = 20};
               },
               "143a0fe6518efbadbc153e36f6b02f1f0b78fdc996d438131d7558f2cf9ccd16"},
        Golden{"Delayed",
               [](GeneratedRequest& r) { r.options.mini_batches = {.size = 256, .max_delay = 3}; },
               "22170c7b8079fc076ced11e5ff25d8d0d70612dc30a9bee488789a2e810d71c3"},
        Golden{"CostOfASequence",
               [](GeneratedRequest& r) { r.options.cost_model.per_sequence = 2000; },
               "5228ee4deacd4e7a97eabb2445bb5489be0e724573b060a10dc061d7dd79275e"},
        Golden{
            "EqualCounts",
            [](GeneratedRequest& r) { r.options.passes[0].sequence_counts = EqualCounts::kExact; },
            "53025ca8525564a1934371f822eb0dc58bfa48073d218b6cdd66298b6f13486a"},
        Golden{"AccumulatedEqualCounts",
               [](GeneratedRequest& r) {
                 r.options.synchronization = Synchronization::kAccumulated;
                 r.options.passes[0].sequence_counts = EqualCounts::kExact;
               },
               "1121c3e909ccb8195f1b282530a320e6c991586a1e127340af579450582eb82a"},
        Golden{"GroupsOnARank",
               [](GeneratedRequest& r) { r.options.mini_batches.groups = GroupPolicy::kSameRank; },
               "83857131c44e37d9ea047dbca1eb9573e39598e027f110004d875e27d46502e4"},
        Golden{"GroupsInAMicrobatch",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
                 r.options.passes[0].max_tokens_per_microbatch = 32800;
               },
               "667977fc7a4241b5ae825b85797bbc5a9e5e8e43232980b3d59551ede70c9f8d"},
        Golden{"FewSequencesAMicrobatch",
               [](GeneratedRequest& r) { r.options.passes[0].max_sequences_per_microbatch = 8; },
               "ea34ea080451b084a793e55c95cd50e4eceecbfa0f2bd3451701975ba5594793"},
        Golden{"OnTokens",
               [](GeneratedRequest& r) { r.options.passes[0].balance_on = BalanceOn::kTokens; },
               "360b86a615f8454ecea445876f05347069508bbc854b360eefb8914d978e1fe6"},
        Golden{"Padded", [](GeneratedRequest& r) { r.options.passes[0].layout = Layout::kPadded; },
               "ae150d5017beb98870a324270e9b84e1791bb7549dda13cf9e767f1f764690d0"},
        Golden{"PaddedAccumulated",
               [](GeneratedRequest& r) {
                 r.options.passes[0].layout = Layout::kPadded;
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "e8948b35bda7bbecfecbf1ff546a39818d55b7e5507c4a0785ca98c6b89d3efe"},
        Golden{"OverlongAlone",
               [](GeneratedRequest& r) {
                 r.options.overlong = OverlongPolicy::kAlone;
                 r.options.passes[0].max_tokens_per_microbatch = 4100;
                 r.options.passes[0].rows = RowPadding::kNone;
               },
               "3958fa4d5d47a036a06294485d5cc5fe310a9752f39869bf8925d5e2be642ee3"},
        Golden{"Stratified",
               [](GeneratedRequest& r) { r.options.mini_batches.order = Order::kStratified; },
               "3fd3845a3c6da4fe570612c38d33e7d586303236e7fda3e18cf00997429f9b69"},
        Golden{"SeveralPasses",
               [](GeneratedRequest& r) {
                 r.options.passes.push_back(r.options.passes[0]);
                 r.options.passes[0].name = "train";
                 r.options.passes[1].name = "logprob";
                 r.options.passes[1].max_tokens_per_microbatch = 16400;
                 r.options.passes[1].ignore_mini_batches = true;
               },
               "ff825750e2a59431e66d52ebf72f1aaebcc6af6e687e59146142fb7fad2d72a0"},
        Golden{"PipelinesOfSeveralPasses",
               [](GeneratedRequest& r) {
                 r.options.synchronization = Synchronization::kAccumulated;
                 r.options.topology.pipeline_parallel = 2;
                 r.options.cost_model.per_microbatch = 512;
                 r.options.passes[0].rows = RowPadding::kNone;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
                 r.options.passes.push_back(r.options.passes[0]);
                 r.options.passes[0].name = "train";
                 r.options.passes[1].name = "logprob";
                 r.options.passes[1].forward_only = true;
                 r.options.passes[1].max_tokens_per_microbatch = 16400;
               },
               "a82f2227dade04e610404a90706060d63ceee23d89fcc5688728a3334b6fdaf2"},
        Golden{"ThoroughOnPipelines",
               [](GeneratedRequest& r) {
                 r.lengths.resize(200);
                 r.options.mini_batches = {};
                 r.options.effort = Effort::kThorough;
                 r.options.topology.pipeline_parallel = 4;
                 r.options.passes[0].rows = RowPadding::kNone;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "dd1adb8a9d3a250c0848915c243209c4f030badc4b0b3657e95ef41ef003b87f"},
        Golden{"PaddedPipelines",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.passes[0].layout = Layout::kPadded;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "1fabacd535f1d5ea2575f7a2532e05ccadaa63f6982435b20bd2ca1c3cc3c3ac"},
        Golden{"FewSequences",
               [](GeneratedRequest& r) {
                 r.lengths.resize(14);
                 r.options.mini_batches = {};
               },
               "e610942812ae3fc62a0f1ca1a3fc424bf43c874a2632da15fae75ac29619ad02"},
        Golden{"ManyMicrobatches",
               [](GeneratedRequest& r) {
                 r.options.passes[0].min_microbatches = 60;
                 r.options.passes[0].microbatch_count_multiple = 4;
               },
               "6d229fa610162fa58a5f9005db2c8d445dab3b0334445ca5846629dd5065b77f"},
        Golden{"EmptyMicrobatches",
               [](GeneratedRequest& r) {
                 r.lengths.resize(20);
                 r.options.mini_batches = {};
                 r.options.allow_empty_microbatches = true;
                 r.options.passes[0].min_microbatches = 7;
               },
               "00bd874458070fb9c8989182dde595da665067f83957700cd4ed59447d84a0a9"}),
    testing::NameOfGolden);

}  // namespace
}  // namespace batchplan
