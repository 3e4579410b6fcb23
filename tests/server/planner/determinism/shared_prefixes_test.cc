// Fingerprints of the plans of sequences that share prefixes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/server/planner/determinism/golden.h"

namespace batchplan {
namespace {

using testing::ExpectFingerprint;
using testing::GeneratedRequest;
using testing::Golden;

// Groups of eight answers to a prompt, and every third sequence goes on from the one before it.
GeneratedRequest SharedRequest() {
  GeneratedRequest request;
  testing::RandomStream random(5);
  const std::vector<uint32_t> answers = testing::MathsLengths(512, 12);
  for (uint32_t i = 0; i < answers.size(); ++i) {
    const uint32_t first = i / 8 * 8;
    const bool continues = i > first && i % 3 == 0;
    request.shared_with.push_back(continues ? i - 1 : first);
    const uint32_t most = i == first ? 0 : request.lengths[request.shared_with[i]];
    const auto prompt = static_cast<uint32_t>(random.Between(100, 900));
    request.shared_prefixes.push_back(continues ? most : std::min(prompt, most));
    request.lengths.push_back(
        std::min<uint32_t>(request.shared_prefixes[i] + answers[i] / 2 + 1, 8000));
    request.shared_prefixes[i] = std::min(request.shared_prefixes[i], request.lengths[i]);
    request.group_ids.push_back(i / 8);
  }
  PlanOptions& options = request.options;
  options = testing::PackedOptions(8200, Packer::kBalanced, 4, Sharding::kBalanced);
  options.topology.context_parallel = 2;
  options.cost_model = {.per_token = 0.1, .per_token_squared = 1.0 / 30011, .per_microbatch = 3.3};
  return request;
}

class SharedDeterminismTest : public ::testing::TestWithParam<Golden> {};

TEST_P(SharedDeterminismTest, FingerprintIsTheOneWrittenDown) {
  ExpectFingerprint(SharedRequest(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Requests, SharedDeterminismTest,
    ::testing::Values(
        Golden{"Lockstep", [](GeneratedRequest&) {},
               "df7dc798f97272ba10d858b506bcaf14659adfce6ac8a29cd2122601fa43c237"},
        Golden{"Fast", [](GeneratedRequest& r) { r.options.effort = Effort::kFast; },
               "89ed606402d5fe25c3632dc5c7db9c3900990b9e39813eeabfc8f73bea2e7a5c"},
        Golden{"Thorough", [](GeneratedRequest& r) { r.options.effort = Effort::kThorough; },
               "f41f4a6fae2c6ee83b7ae81054a6da6b411b4de45ae7fe141ec17a7d99aa5332"},
        Golden{
            "Accumulated",
            [](GeneratedRequest& r) { r.options.synchronization = Synchronization::kAccumulated; },
            "d6e43b49ffdc1cc1e3e6d7529de054cd1bf74334800569ddb934e12801c66538"},
        Golden{"Pipelines",
               [](GeneratedRequest& r) {
                 r.options.synchronization = Synchronization::kAccumulated;
                 r.options.topology.pipeline_parallel = 4;
                 r.options.cost_model.per_microbatch = 1024;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "c72d8ce3f5ca24bf5ee82147063d61f38dd313b8befd7db8e3a6a3d913f56d70"},
        Golden{
            "EqualCounts",
            [](GeneratedRequest& r) { r.options.passes[0].sequence_counts = EqualCounts::kExact; },
            "f6b139196085502e4adcab5d7a6a898125a6ccccece0e7b678f233fe62b6051f"},
        Golden{"GroupsOnOneRank",
               [](GeneratedRequest& r) { r.options.mini_batches.groups = GroupPolicy::kSameRank; },
               "9dca41788d5b033b976b96f590d03ce0deb4d6faaf49f46d738c87ec264c9b98"},
        Golden{"GivenRanks",
               [](GeneratedRequest& r) {
                 for (uint32_t i = 0; i < r.lengths.size(); ++i) r.ranks.push_back(i / 2 % 4);
               },
               "dff8b6a2ea650605ead48f462e0919108b263e6a02ea36c260080c3cc3d577b5"},
        Golden{"MiniBatchesAndAPassThatIgnoresPrefixes",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.size = 128;
                 r.options.passes.push_back(r.options.passes[0]);
                 r.options.passes[1].name = "logprobs";
                 r.options.passes[1].ignore_mini_batches = true;
                 r.options.passes[1].ignore_shared_prefixes = true;
               },
               "330a28202bb6dd2549f3b71cc2f582765b02c7c1a8e36e28c487d4b67f13f34e"},
        Golden{"SomeOfWhatWaits",
               [](GeneratedRequest& r) {
                 r.options.selection = Selection{.sequences = 200, .max_overtaking = 100};
               },
               "418075b570274d2e5a5bc05ccf0d84b5c0253b1f2421778dc046d6e94e935154"},
        Golden{"RowsAsLongAsTheBudget",
               [](GeneratedRequest& r) { r.options.passes[0].rows = RowPadding::kCapacity; },
               "ef2da3624ec77006c4932e1577e82ac37244ee7eca6a85e81b03620e54540bb1"},
        Golden{"Areal",
               [](GeneratedRequest& r) { r.options.passes[0].sharding = Sharding::kArealTree; },
               "04dda8df70abaa880a537f60614d0c6bcc9a05957bb1c287e3aaf4377757c413"},
        Golden{"Trl",
               [](GeneratedRequest& r) { r.options.passes[0].sharding = Sharding::kTrlTree; },
               "7287858d59de0b00768d941d676704936fada4f6c0398cd9cba2535d6bd02b4a"},
        Golden{"Art",
               [](GeneratedRequest& r) { r.options.passes[0].sharding = Sharding::kArtPrefixTree; },
               "a3793f13a25767a466e4d5db26f8dce18462816c3fc7e7bf2d001afeb8eba18d"}),
    testing::NameOfGolden);

}  // namespace
}  // namespace batchplan
