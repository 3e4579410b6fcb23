// The memory for planning a request: at most 200 MiB and 50 times its own bytes. That includes the
// plan, its message and the message's bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/checked_plan.h"
#include "tests/support/counted_memory.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::PackedOptions;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// The lengths once more, for the request's message, and the answer: a message as large as the plan,
// and its bytes.
uint64_t BytesBeside(const std::vector<uint32_t>& lengths, const Plan& plan) {
  uint64_t values = 0;
  for (const PassPlan& pass : plan.passes) {
    values += pass.sequence_index.size() + pass.sequence_lengths.size() +
              pass.microbatch_offsets.size() + pass.row_widths.size() +
              pass.microbatches_per_rank.size();
  }
  return 5 * lengths.size() + 7 * values;
}

// The lengths have one byte each on the wire.
void ExpectBounded(const std::vector<uint32_t>& lengths, const PlanOptions& options) {
  const uint64_t limit = 200 * kMebibyte + 50 * lengths.size();
  uint64_t peak = 0;
  absl::StatusOr<Plan> plan;
  {
    const testing::CountedMemory memory;
    plan = MakePlan({.lengths = lengths}, options);
    peak = memory.peak();
  }
  ASSERT_TRUE(plan.ok()) << plan.status();
  ::testing::Test::RecordProperty("peak_bytes", std::to_string(peak));
  EXPECT_LE(peak + BytesBeside(lengths, *plan), limit)
      << "planning took " << peak / kMebibyte << " MiB";
}

std::vector<uint32_t> ShortLengths(size_t count) {
  testing::RandomStream random(count);
  std::vector<uint32_t> lengths;
  for (size_t i = 0; i < count; ++i)
    lengths.push_back(static_cast<uint32_t>(random.Between(1, 127)));
  return lengths;
}

TEST(MemoryTest, AsManyEmptyMicrobatchesAsThereMayBe) {
  PlanOptions options = PackedOptions(128, Packer::kBalanced, 65536, Sharding::kBalanced);
  options.allow_empty_microbatches = true;
  options.passes[0].min_microbatches = 4;
  ExpectBounded({1}, options);
  ExpectBounded(std::vector<uint32_t>(65536, 1), options);
}

TEST(MemoryTest, AMiniBatchForEverySequence) {
  PlanOptions options = PackedOptions(128, Packer::kBalanced, 1, Sharding::kBalanced);
  options.mini_batches.size = 1;
  ExpectBounded(ShortLengths(500'000), options);
  // And a pass over all mini-batches, which needs the ranks of all.
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].ignore_mini_batches = true;
  options.effort = Effort::kFast;
  ExpectBounded(ShortLengths(500'000), options);
}

TEST(MemoryTest, TheCandidatesOfAThoroughPlan) {
  PlanOptions options = PackedOptions(4096, Packer::kBalanced, 16, Sharding::kBalanced);
  options.effort = Effort::kThorough;
  ExpectBounded(ShortLengths(1'000'000), options);
  options.passes[0].layout = Layout::kPadded;
  ExpectBounded(ShortLengths(1'000'000), options);
}

// In micro-batches of one or two sequences.
TEST(MemoryTest, AsManySequencesAsAServerTakes) {
  PlanOptions options = PackedOptions(128, Packer::kBalanced, 16, Sharding::kBalanced);
  options.effort = Effort::kFast;
  ExpectBounded(ShortLengths(1'500'000), options);
}

TEST(MemoryTest, HalfOfWhatWaits) {
  PlanOptions options = PackedOptions(128, Packer::kBalanced, 16, Sharding::kBalanced);
  options.effort = Effort::kFast;
  options.selection = {.sequences = 750'000, .max_overtaking = 700'000};
  ExpectBounded(ShortLengths(1'500'000), options);
  options.selection.reset();
  options.mini_batches = {.size = 1000, .max_delay = 1499};
  ExpectBounded(ShortLengths(1'500'000), options);
}

// As many sequences as a megabyte can hold.
TEST(MemoryTest, GroupsOfManySizes) {
  for (const uint32_t pool : {64u, 65536u}) {
    PlanOptions options = PackedOptions(128, Packer::kBalanced, pool, Sharding::kBalanced);
    options.topology.dynamic_context = DynamicContext{};
    options.cost_model = {.per_microbatch = 1024, .exchange = {{8, 0.02}, {0, 0.065}}};
    options.allow_empty_microbatches = true;
    ExpectBounded(ShortLengths(900'000), options);
    options.selection = {.sequences = 450'000, .max_overtaking = 1000};
    ExpectBounded(ShortLengths(900'000), options);
    options.selection.reset();
    options.passes[0].sharding = Sharding::kMegatronDynamicCp;
    ExpectBounded(ShortLengths(900'000), options);
  }
}

TEST(MemoryTest, ManyPasses) {
  PlanOptions options = PackedOptions(4096, Packer::kBalanced, 16, Sharding::kBalanced);
  options.effort = Effort::kFast;
  for (uint32_t i = 1; i < 16; ++i) {
    options.passes.push_back(options.passes[0]);
    options.passes[i].name = std::to_string(i);
    options.passes[i].max_tokens_per_microbatch += i;
  }
  ExpectBounded(ShortLengths(200'000), options);
}

}  // namespace
}  // namespace batchplan
