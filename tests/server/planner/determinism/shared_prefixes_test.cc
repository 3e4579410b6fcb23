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
               "6191c0db99e8388d1b3244e69f0f83014d0d3c4b5c290fad19577ab993d99e71"},
        Golden{"Fast", [](GeneratedRequest& r) { r.options.effort = Effort::kFast; },
               "7b2f3cf6514ac0285283b9ad5bc1bb40a84c0408ac92865d0561c7c070eaac49"},
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
               "62375104bc9b22098e98e94e1ea343dc2bcf73f12da0045586afc5f7e9b258f8"},
        Golden{
            "EqualCounts",
            [](GeneratedRequest& r) { r.options.passes[0].sequence_counts = EqualCounts::kExact; },
            "dd01d6eed4d862bb0fee134c37a731d99eb9e233d0d4ec64ae896df04b7195bd"},
        Golden{"GroupsOnOneRank",
               [](GeneratedRequest& r) { r.options.mini_batches.groups = GroupPolicy::kSameRank; },
               "df5ccf3e58258f255dbba35dc1bdfacfbaf885a9512fbf3b2b29930a8a3d56bc"},
        Golden{"GivenRanks",
               [](GeneratedRequest& r) {
                 for (uint32_t i = 0; i < r.lengths.size(); ++i) r.ranks.push_back(i / 2 % 4);
               },
               "ad8f61c921162a6fc264848d96dcb3e942cae04790fefdff9988c3536c6fa269"},
        Golden{"MiniBatchesAndAPassThatIgnoresPrefixes",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.size = 128;
                 r.options.passes.push_back(r.options.passes[0]);
                 r.options.passes[1].name = "logprobs";
                 r.options.passes[1].ignore_mini_batches = true;
                 r.options.passes[1].ignore_shared_prefixes = true;
               },
               "61894d60e440ddd93f0506c79e2240adccc6bc50b0bdb64a2213d004f8653a01"},
        Golden{"SomeOfWhatWaits",
               [](GeneratedRequest& r) {
                 r.options.selection = Selection{.sequences = 200, .max_overtaking = 100};
               },
               "cdb671c50c3ad3610533037d1040b946fce61fd8aed859b53d6a9511c282b572"},
        Golden{"RowsAsLongAsTheBudget",
               [](GeneratedRequest& r) { r.options.passes[0].rows = RowPadding::kCapacity; },
               "7509fd986ae13d6cd7eca02c8cb482705ff263483060df7d39204b3c9c0cf2fd"},
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
