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
               "410562558d856af80bc541a24c1e825c622c7b287fbebf494897e4283892b0ed"},
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
               "6e2c0d43c886af12a88f62bf8a6a5c0ac34398d276b5b6fcf266ebdaa2d16349"},
        Golden{"ThoroughAccumulated",
               [](GeneratedRequest& r) {
                 r.lengths.resize(150);
                 r.options.effort = Effort::kThorough;
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "0511676906c5ee31d57abb73f720b1eb00011b9d089adbb7a5871c4ee967cba7"},
        Golden{"OfFewSequences", [](GeneratedRequest& r) { r.lengths.resize(12); },
               "8ee7d5e9f2e9ba5fc319b7f89d946bcf42135ea38aae21655b11241e7e7c8148"},
        Golden{"OnPipelinesInLockstep",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "4e38da2ae7356de369fc849ca6d66c8cbc628be53e0115e7e68b666d1538add3"},
        Golden{"OnPipelinesAccumulated",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 4;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
                 r.options.synchronization = Synchronization::kAccumulated;
               },
               "30508634dde13eb4d63ddac3f42fdd8e3528eef7c705ad521f3fcfd3cbc0a505"},
        Golden{"OnInterleavedPipelines",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.topology.virtual_pipeline = 2;
                 r.options.pipeline.transfer = 30;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
               },
               "cd806cc56e8528bc3964070cf3cb86eceba9a2e4cdfd9df56151bcde4edbfc8d"},
        Golden{"OfSeveralPasses", [](GeneratedRequest& r) { AddPass(r, 2200); },
               "081c776a2e02c9d4daaf7e354ca26466156442430634dd23730f7ba9cb328b03"},
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
               "4983f57a3a464b60d958f84671b7a28fa94ab18dde59c3c64cfaa248fa51d8f0"},
        Golden{"OfSeveralMiniBatches",
               [](GeneratedRequest& r) {
                 r.options.mini_batches = {.size = 128, .order = Order::kShuffled, .seed = 20};
               },
               "75ac55c1252717271a3e9ea4d985f251d9e385f0c6924b54e5e27b45b3a10aeb"},
        Golden{"Delayed",
               [](GeneratedRequest& r) { r.options.mini_batches = {.size = 128, .max_delay = 2}; },
               "ad031d8c168a107f380800434586cb23d8234a16012110a3b6aea74c6a79e4ea"},
        Golden{"OfSomeThatWait",
               [](GeneratedRequest& r) {
                 r.options.selection = {.sequences = 400, .max_overtaking = 50};
               },
               "f2f9227cc6ddaa93a5e9ab0245a371a681aec9cfdc7c5a09680c0900611c1868"},
        Golden{"OfSequencesTogether",
               [](GeneratedRequest& r) {
                 r.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
               },
               "9213b4add1172c9d3f5b11f2eeba6e343db836f4e1260451a1d9e00181c06786"},
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
               "715f6251cafffed29505dce57d5217769ecbb0c5a7b96391ec176147c94f8b9a"},
        Golden{"AsMegatronOnPipelines",
               [](GeneratedRequest& r) {
                 r.options.topology.pipeline_parallel = 2;
                 r.options.passes[0].order = MicrobatchOrder::kPipeline;
                 r.options.passes[0].sharding = Sharding::kMegatronDynamicCp;
               },
               "5abfc40787df26eb5437d4ab6cc24f3c83a84a4194513d39ff121e6afa8cb1b0"},
        Golden{"WithoutExchange",
               [](GeneratedRequest& r) { r.options.cost_model.exchange.clear(); },
               "7b32bf42e574350638e3c15277c848981976fdcd0dff6048122e2016f0cbd439"},
        Golden{"WhoseExchangeOverlaps",
               [](GeneratedRequest& r) { r.options.cost_model.exchange_overlaps = true; },
               "cde34f74d2dd87d4668035aba3d4332958b89a1dee2a57c1af2f5e2de4ffc6a2"},
        Golden{"WhoseExchangeIsDear",
               [](GeneratedRequest& r) {
                 r.options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.26}};
               },
               "83e424ac40827b516b6525d924d70f7cdb2fa30706ad4d46d512d666ac2902a6"},
        Golden{"WithTheCostOfASequence",
               [](GeneratedRequest& r) { r.options.cost_model.per_sequence = 40; },
               "729566943a1cde7c100ea5dec1be457d373ae755e0d6a361c36e95ba85934663"},
        Golden{"OfTwoToFourRanks",
               [](GeneratedRequest& r) {
                 r.options.topology.dynamic_context = DynamicContext{.min_size = 2, .max_size = 4};
                 r.options.passes[0].max_tokens_per_microbatch = 2200;
               },
               "4ad647d6dac4cf3f837ad5a850ac90b987bfd5c0d8c9c2fc4eb6f5873b545832"},
        Golden{"OfAPoolThatIsNoPowerOfTwo",
               [](GeneratedRequest& r) { r.options.topology.data_parallel = 12; },
               "11d77e99f7ad22710205c2f90ee2299e8eb934a00b83bfab0eaf577d820d8f2e"},
        Golden{"OfFewSequencesEach",
               [](GeneratedRequest& r) { r.options.passes[0].max_sequences_per_microbatch = 4; },
               "b6321f9a07ba2f34657a595af9c724647808ab4b5f906dfe7c5c95f577365300"},
        Golden{"InManySlots",
               [](GeneratedRequest& r) {
                 r.options.passes[0].min_microbatches = 24;
                 r.options.passes[0].microbatch_count_multiple = 3;
               },
               "91cc5057057ceb2a4925ae4016510991029e595edfd82a67419fffe9ef5234be"},
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
               "347f152c01fc215b296b5cadde5dfcae8e71dcd2a06504b30f20ccba2aa81f33"},
        Golden{"WithALongSequenceCut",
               [](GeneratedRequest& r) {
                 r.options.overlong = OverlongPolicy::kTruncate;
                 r.options.passes[0].max_tokens_per_microbatch = 300;
               },
               "d251e765185f61c15793d66f9610355c4e433a21bd1af2434be5833a7006ce11"}),
    testing::NameOfGolden);

}  // namespace
}  // namespace batchplan
