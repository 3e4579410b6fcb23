// Fingerprints of plans whose context-parallel groups differ in size.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/server/planner/determinism/golden.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ExpectFingerprint;
using testing::GeneratedRequest;
using testing::Golden;

// 16 ranks, one of which holds one sequence in two alone, and eight the longest.
GeneratedRequest PoolRequest() {
  GeneratedRequest request;
  request.lengths = testing::ZipfLengths(512, 11);
  testing::GroupByFours(request);
  PlanOptions& options = request.options;
  options = testing::PackedOptions(1100, Packer::kBalanced, 16, Sharding::kBalanced);
  options.topology.dynamic_context.emplace();
  options.cost_model = {
      .per_token = 0.1,
      .per_token_squared = 1.0 / 30011,
      .per_microbatch = 3.3,
      .exchange = {{.up_to_size = 4, .per_token = 0.003}, {.up_to_size = 0, .per_token = 0.009}}};
  return request;
}

void AddPass(GeneratedRequest& request, uint32_t budget) {
  std::vector<PassOptions>& passes = request.options.passes;
  passes.push_back(passes[0]);
  passes[0].name = "train";
  passes[1].name = "logprob";
  passes[1].max_tokens_per_microbatch = budget;
}

class ContextGroupsDeterminismTest : public ::testing::TestWithParam<Golden> {};

TEST_P(ContextGroupsDeterminismTest, FingerprintIsTheOneWrittenDown) {
  ExpectFingerprint(PoolRequest(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Groups, ContextGroupsDeterminismTest,
    ::testing::Values(
        Golden{"InLockstep", [](GeneratedRequest&) {},
               "ad8db96b2863fa0618d4a0c73297c62e4b8026916e335b0614540928ca1b6c51"},
        Golden{
            "Accumulated",
            [](GeneratedRequest& r) { r.options.synchronization = Synchronization::kAccumulated; },
            "0d3e2b28925bfac6f2bd90bcfebbcfea67403e8eb3ae9e8438076f2e505fbe06"},
        Golden{"Fast", [](GeneratedRequest& r) { r.options.effort = Effort::kFast; },
               "1d0c8d48203f4596c692e2b31925cd5d1f5925467b25844bbb9b1beb4d79dbfb"},
        Golden{"Thorough",
               [](GeneratedRequest& r) {
                 r.lengths.resize(150);
                 r.options.effort = Effort::kThorough;
               },
               "79caf7981611b3ee4b915f6a828b7cb229851d0c377027002fbebb26869775ea"},
        Golden{"ThoroughAccumulated",
               [](GeneratedRequest& r) {
                 r.lengths.resize(150);
                 r.options.effort = Effort::kThorough;
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "0511676906c5ee31d57abb73f720b1eb00011b9d089adbb7a5871c4ee967cba7"},
        Golden{"OfFewSequences", [](GeneratedRequest& r) { r.lengths.resize(12); },
               "4f63275f78efcaba827ce26251799f60c37ac094ad32576726479bb60f7eeb20"},
        Golden{"OnPipelinesInLockstep",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "bdc190660b20f52fae3db19ade0d70c0c92c2e3ce6ab51d2ef48461b9fe5335f"},
        Golden{"OnPipelinesAccumulated",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 4;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "ac6dcbe247d4c68e10767ddf9799d508f3779be3db3c00ef3c31d557ba1f3ece"},
        Golden{"OnInterleavedPipelines",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.topology.virtual_pipeline = 2;
                 r.options.pipeline.transfer = 30;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "26503ee43b17349a27e8423a83d572d6e63abaf87f2da7fdd1096abfd80d92d0"},
        Golden{"OfSeveralPasses", [](GeneratedRequest& r) { AddPass(r, 2200); },
               "25b54a77a5998733e7fe973962164f28ea97d28536de472189af9288b21a70bb"},
        Golden{"OfSeveralPassesAccumulated",
               [](GeneratedRequest& r) {
                 r.options.synchronization = Synchronization::kAccumulated;
                 AddPass(r, 1400);
               },
               "caa379d0723f31f2a5b06d063a00facc48957e1ee6fb2ac0d550bbc91d3500c4"},
        Golden{"OfAPassOverAllMiniBatches",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.size = 256;
                 AddPass(r, 2200);
                 r.options.passes[1].ignore_mini_batches = true;
               },
               "6d761b24eb9885795db0c0e58511000232bce36b146d9d018cb86ce9690c3894"},
        Golden{"OfSeveralMiniBatches",
               [](GeneratedRequest& r) {
                 r.options.mini_batches = {.size = 128, .order = Order::kShuffled, .seed = 20};
               },
               "8313905fff1fc398d852e6b26dc496b7ea628eadee1474a8612005174480c6a2"},
        Golden{"Delayed",
               [](GeneratedRequest& r) { r.options.mini_batches = {.size = 128, .max_delay = 2}; },
               "532469732794490f4c253549e9203e447cd3f0d0091605a5a7f3458131af20ad"},
        Golden{"OfSomeThatWait",
               [](GeneratedRequest& r) {
                 r.options.selection = {.sequences = 400, .max_overtaking = 50};
               },
               "be7fcda6b7ae1d292aee472a7b9680ca1d09b5b4b1b5d14cf3421fa196a95394"},
        Golden{"OfSequencesTogether",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
               },
               "1e0640a2b3aa02002cfc5eda8363f561be11b0f5c267e0e4a21237e1733cfcf9"},
        Golden{"OfSequencesTogetherAccumulated",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "5ae141596932f33d1ad48cfeb4864e2a4fd1fb5c6f7be076c41d7fa7df7ec2ba"},
        Golden{"AsMegatron",
               [](GeneratedRequest& r) {
                 r.options.passes[0].sharding = Sharding::kMegatronDynamicCp;
               },
               "fefbcc2542fc57cb999b4916f8b74d0b05008ff79c2e8f13aa9b8b42335baba9"},
        Golden{"AsMegatronOnPipelines",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
                 r.options.passes[0].sharding = Sharding::kMegatronDynamicCp;
               },
               "42c7fa6a4c6db8d1f28932e281d336d78fe9074af9234e0246b5af3a0eecf028"},
        Golden{"WithoutExchange",
               [](GeneratedRequest& r) { r.options.cost_model.exchange.clear(); },
               "241f351c29204fc5775f6e51ef832d751aa63c0f12912891d0cd3ea8f81654c7"},
        Golden{"WhoseExchangeOverlaps",
               [](GeneratedRequest& r) { r.options.cost_model.exchange_overlaps = true; },
               "2166e703638bc918daeae5f189711ce78b91f67f8402df1b1dcaa9eda6360817"},
        Golden{"WhoseExchangeIsDear",
               [](GeneratedRequest& r) {
                 r.options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.26}};
               },
               "c52400640f7f30ab30f76d43b475b3f7c333e5ad32e63bcfc290734cf97a3659"},
        Golden{"WithTheCostOfASequence",
               [](GeneratedRequest& r) { r.options.cost_model.per_sequence = 40; },
               "db82618c66d6c1e594500df6815173541f844cc12a8db77870e5f2a2e8f22a4d"},
        Golden{"OfTwoToFourRanks",
               [](GeneratedRequest& r) {
                 r.options.topology.dynamic_context = DynamicContext{.min_size = 2, .max_size = 4};
                 r.options.passes[0].max_tokens_per_microbatch = 2200;
               },
               "8546d19872581ec5f577e799fd01ef4a183de46eee333ca0b8d969c735dec053"},
        Golden{"OfAPoolThatIsNoPowerOfTwo",
               [](GeneratedRequest& r) { r.options.topology.data_parallel = 12; },
               "fd65775df94c0a7b3377c2d6097fafb2d92e2ba4e5f2c6a9c06b8d224fbbbb0d"},
        Golden{"OfFewSequencesEach",
               [](GeneratedRequest& r) { r.options.passes[0].max_sequences_per_microbatch = 4; },
               "a5c31bad306358aace11eadf16bf988e364aa1f7afcbe5a347d7f4920acfcae1"},
        Golden{"InManySlots",
               [](GeneratedRequest& r) {
                 r.options.passes[0].min_microbatches = 24;
                 r.options.passes[0].microbatch_count_multiple = 3;
               },
               "5e9e9988fa190a15fe9cf37b663061af16add7d145a8bbe0763f647f684ad5b5"},
        Golden{"SomeEmpty",
               [](GeneratedRequest& r) {
                 r.lengths.resize(20);
                 r.options.allow_empty_microbatches = true;
                 r.options.passes[0].min_microbatches = 9;
               },
               "7fa6e842d6bc685450b3e3c53d4428e5f560060c9496e4039188382e2ae92790"},
        Golden{"SmallAtBothEnds",
               [](GeneratedRequest& r) {
                 r.options.passes[0].order = MicrobatchOrder::kSmallAtBothEnds;
               },
               "ad50a3a352aa3328dd5ad004a0a4e5c26f6aea7c1399e3d8538e17a4f74bdda9"},
        Golden{"WithALongSequenceCut",
               [](GeneratedRequest& r) {
                 r.options.overlong = OverlongPolicy::kTruncate;
                 r.options.passes[0].max_tokens_per_microbatch = 300;
               },
               "101ea128d3a47c2b9a85634675fccba122e709c72024a3a7f52c77f7d4f2bafc"}),
    testing::NameOfGolden);

}  // namespace
}  // namespace batchplan
