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
        Golden{"Lockstep", [](GeneratedRequest&) {}, ""},
        Golden{"Fast", [](GeneratedRequest& r) { r.options.effort = Effort::kFast; }, ""},
        Golden{"Thorough", [](GeneratedRequest& r) { r.options.effort = Effort::kThorough; }, ""},
        Golden{
            "Accumulated",
            [](GeneratedRequest& r) { r.options.synchronization = Synchronization::kAccumulated; },
            ""},
        Golden{"Pipelines",
               [](GeneratedRequest& r) {
                 r.options.synchronization = Synchronization::kAccumulated;
                 r.options.topology.pipeline_parallel = 4;
                 r.options.cost_model.per_microbatch = 1024;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               ""},
        Golden{"EqualCounts",
               [](GeneratedRequest& r) { r.options.passes[0].equal_sequence_counts = true; }, ""},
        Golden{"GroupsOnOneRank",
               [](GeneratedRequest& r) { r.options.mini_batches.groups = GroupPolicy::kSameRank; },
               ""},
        Golden{"GivenRanks",
               [](GeneratedRequest& r) {
                 for (uint32_t i = 0; i < r.lengths.size(); ++i) r.ranks.push_back(i / 2 % 4);
               },
               ""},
        Golden{"MiniBatchesAndAPassThatIgnoresPrefixes",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.size = 128;
                 r.options.passes.push_back(r.options.passes[0]);
                 r.options.passes[1].name = "logprobs";
                 r.options.passes[1].ignore_mini_batches = true;
                 r.options.passes[1].ignore_shared_prefixes = true;
               },
               ""},
        Golden{"SomeOfWhatWaits",
               [](GeneratedRequest& r) {
                 r.options.selection = Selection{.sequences = 200, .max_overtaking = 100};
               },
               ""},
        Golden{"RowsAsLongAsTheBudget",
               [](GeneratedRequest& r) { r.options.passes[0].rows = RowPadding::kCapacity; }, ""},
        Golden{"Areal",
               [](GeneratedRequest& r) { r.options.passes[0].sharding = Sharding::kArealTree; },
               ""},
        Golden{"Trl",
               [](GeneratedRequest& r) { r.options.passes[0].sharding = Sharding::kTrlTree; }, ""},
        Golden{"Art",
               [](GeneratedRequest& r) { r.options.passes[0].sharding = Sharding::kArtPrefixTree; },
               ""}),
    testing::NameOfGolden);

}  // namespace
}  // namespace batchplan
