// Fingerprints of plans by packers, shardings, scans and presets that are asked for by name, and of
// ranks that the manifest gives.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/request/presets.h"
#include "tests/server/planner/determinism/golden.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ExpectFingerprint;
using testing::GeneratedRequest;
using testing::Golden;

void Ask(GeneratedRequest& request, Packer packer, Sharding sharding) {
  request.options.passes[0].packer = packer;
  request.options.passes[0].sharding = sharding;
}

void AskPreset(GeneratedRequest& request, absl::string_view preset) {
  request.options.passes[0] = PresetPass(preset, request.options.topology).value();
  request.options.passes[0].max_tokens_per_microbatch = 8200;
}

void GiveRanks(GeneratedRequest& request) {
  for (uint32_t i = 0; i < request.lengths.size(); ++i) request.ranks.push_back(i * 7 % 4);
}

// Around a third of the budget, where the packers of first fit part.
std::vector<uint32_t> Thirds() {
  testing::RandomStream random(5);
  std::vector<uint32_t> lengths;
  for (int i = 0; i < 2048; ++i) {
    lengths.push_back(static_cast<uint32_t>(random.Between(1300, random.Chance(50) ? 2800 : 5600)));
  }
  return lengths;
}

class MethodDeterminismTest : public ::testing::TestWithParam<Golden> {};

TEST_P(MethodDeterminismTest, FingerprintIsTheOneWrittenDown) {
  ExpectFingerprint(testing::RanksRequest(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Requests, MethodDeterminismTest,
    ::testing::Values(
        Golden{"ConcatenativeDealt",
               [](GeneratedRequest& r) { Ask(r, Packer::kConcatenative, Sharding::kDealBins); },
               "c139d2546701f29cb1c709e0893cbf56ca5da223fa87c54d669334a057f1ce05"},
        Golden{"ConcatenativeContiguous",
               [](GeneratedRequest& r) { Ask(r, Packer::kConcatenative, Sharding::kContiguous); },
               "ff4a4fb0465ca5e7bdbfdf66021a0a4ee54c364416ce32fcdb7b5f628b06b7f3"},
        Golden{
            "FirstFitDecreasingDealt",
            [](GeneratedRequest& r) { Ask(r, Packer::kFirstFitDecreasing, Sharding::kDealBins); },
            "844e0d3bb86f32e36687b69e6b8a05768dfbd0321feca02e0944dfd7caaad930"},
        Golden{"FirstFitShuffleDealt",
               [](GeneratedRequest& r) { Ask(r, Packer::kFirstFitShuffle, Sharding::kDealBins); },
               "fe59041f5e099587a5a978d11725ffe2d7504a36bde551b58221037084919ffe"},
        Golden{"FirstFitShuffleContiguous",
               [](GeneratedRequest& r) { Ask(r, Packer::kFirstFitShuffle, Sharding::kContiguous); },
               "b656290621e64d692f574012efb67e1f5d03b4066a7637a83beb73d9057c05d3"},
        Golden{"BestFitDecreasingDealt",
               [](GeneratedRequest& r) { Ask(r, Packer::kBestFitDecreasing, Sharding::kDealBins); },
               "0a38fbbf806b2a7c88b8dc533e1cbd02644ab98cbc550e9a9be068375012294e"},
        Golden{"FirstFitDecreasingOfThirds",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kFirstFitDecreasing, Sharding::kDealBins);
                 r.lengths = Thirds();
               },
               "7ad1cafaa9bce543570f1e92a608b3619244533e082ab1318465394e9ffa7114"},
        Golden{"ModifiedFirstFitOfThirds",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kModifiedFirstFitDecreasing, Sharding::kDealBins);
                 r.lengths = Thirds();
               },
               "6f3f04c2a2ea01a05e2e41da283b163b5bd8edb0155d6c9c1bc9cb7d13006e46"},
        Golden{
            "KarmarkarKarpByKarmarkarKarp",
            [](GeneratedRequest& r) { Ask(r, Packer::kKarmarkarKarp, Sharding::kKarmarkarKarp); },
            "7a81a1dfa6e1d8004d3958761da285f65b281db62cbb0fecfe88bda24d0e4688"},
        Golden{"KarmarkarKarpByTokens",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kKarmarkarKarp, Sharding::kKarmarkarKarp);
                 r.options.passes[0].balance_on = BalanceOn::kTokens;
                 r.options.passes[0].sequence_counts = EqualCounts::kExact;
               },
               "f4ae3905ec4e181b80aebc6515af085723db3dd94e13dbb44141e74f512441ad"},
        Golden{"BalancedByLongestProcessingTime",
               [](GeneratedRequest& r) { Ask(r, Packer::kBalanced, Sharding::kLpt); },
               "579c75513cef4a67b7b87c5b9ecc63f7c23c7f15e3699e0bed119fa1c5830a06"},
        Golden{"FirstFitDecreasingByLongestProcessingTime",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kFirstFitDecreasing, Sharding::kLpt);
                 r.options.passes[0].sequence_counts = EqualCounts::kExact;
               },
               "3d6689d77e737305681ad838452ac11a1052d568ea997d9ced7ed538a86f2adc"},
        Golden{"BestFitByStrides",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBestFitDecreasing, Sharding::kStrideSorted);
               },
               "f5284e613ad0ad5c9c0e01d1db71483e1f4f4649005deb58be4fa930a1b6c492"},
        Golden{"BalancedContiguous",
               [](GeneratedRequest& r) { Ask(r, Packer::kBalanced, Sharding::kContiguous); },
               "5b7ae9662bc906ffdf2accec35dd15722ba5e79e2dd012079f26b78989571e38"},
        Golden{"BalancedDealtOfThirds",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kDealBins);
                 r.lengths = Thirds();
               },
               "9d00f469fbcdd63bb36df3b20d2e89ad2c6e64ab2424f536ef5927c88e999e57"},
        Golden{"PaddedByStrides",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kStrideSorted);
                 r.options.passes[0].layout = Layout::kPadded;
                 r.options.passes[0].rows = RowPadding::kNone;
               },
               "f5d9fb6c43889aac9fb06d3daeda60ed3af80b2b745e7798de5068b1d59435a2"},
        Golden{"PaddedOptimallyByStrides",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kStrideSorted);
                 r.options.passes[0].layout = Layout::kPadded;
                 r.options.passes[0].rows = RowPadding::kNone;
                 r.options.passes[0].scan = Scan::kOptimal;
               },
               "551bbeb6eb3e4b07a05aacc839e7b13e6ab4f29fe089ab24ded95a608c29cd6e"},
        Golden{"PaddedOptimallyByKarmarkarKarp",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kKarmarkarKarp);
                 r.options.passes[0].layout = Layout::kPadded;
                 r.options.passes[0].rows = RowPadding::kNone;
                 r.options.passes[0].scan = Scan::kOptimal;
               },
               "fb0ca1e7cac232e21a48eb64a73419f6cffb6b734fa57553dac3992f0443b415"},
        Golden{"PresetNemoRlPacking", [](GeneratedRequest& r) { AskPreset(r, "nemo_rl_packing"); },
               "9257fb9842759b1ac23ca8b06f0d9b95d068ad8f9a28f75f757795097e1b2677"},
        Golden{"PresetNemoRlDynamic", [](GeneratedRequest& r) { AskPreset(r, "nemo_rl_dynamic"); },
               "1e1ed3d8df30ebd8390d6c38634ee2989ed32d92fd9eb44fc69808d802125120"},
        Golden{"PresetRollPacking", [](GeneratedRequest& r) { AskPreset(r, "roll_packing"); },
               "06bb0c158bc034c41900ae9a01bd4fa7ad1a5d1942efafa3fa751dfa83c124df"},
        Golden{"PresetMindSpeedRl", [](GeneratedRequest& r) { AskPreset(r, "mindspeed_rl"); },
               "d91e217327c14ddbc528bd2a86682fa4fd9f3d22825e9cbf97e2880c526d5b0b"},
        Golden{"PresetVerl", [](GeneratedRequest& r) { AskPreset(r, "verl"); },
               "b7ee842dd76efe93ba0d818a6ca44f3b1302bd56f989fa49de76ffb96f797bb9"},
        Golden{"PresetNemoRlPackingOnPipelines",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 AskPreset(r, "nemo_rl_packing");
               },
               "9c1145cd4709b7be47aa03651902d2fd476513d54f08dd73ff0bd1c137b1cb42"},
        Golden{"GivenRanksInLockstep",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kBalanced);
                 GiveRanks(r);
               },
               "25dd86bc19a3df7057648e25889122600b01382be9ce5f0c7b50eeba4e3b1e3e"},
        Golden{"GivenRanksAccumulated",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kBalanced);
                 GiveRanks(r);
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "4bee90bf6bc542b36f4f715e61cf7d6b17676da46df792f63646c3a369ef7d07"},
        Golden{"GivenRanksPadded",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kBalanced);
                 GiveRanks(r);
                 r.options.passes[0].layout = Layout::kPadded;
               },
               "6e57ada02e4635308a7543ec3e1a2da269c7a1187527f66e37a438fc798c7c20"},
        Golden{"GivenRanksOnPipelines",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kBalanced);
                 GiveRanks(r);
                 r.options.topology.pipeline_parallel = 2;
                 r.options.passes[0].rows = RowPadding::kNone;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "953b370c4f57ffe5976a30f8f631637272d3e2f55b9e086620ef3b2ccc57f38f"},
        Golden{"GivenRanksOfAPackerByName",
               [](GeneratedRequest& r) {
                 Ask(r, Packer::kBalanced, Sharding::kBalanced);
                 GiveRanks(r);
                 r.options.passes[0].packer = Packer::kBestFitDecreasing;
               },
               "7b60fb13d8c43b09468250c76ecd9c96f5ca78d9c67fc4220585584928aa9f0b"}),
    testing::NameOfGolden);

}  // namespace
}  // namespace batchplan
