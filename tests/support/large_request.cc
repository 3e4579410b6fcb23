#include "tests/support/large_request.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/planner/request/options.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

// All orders of magnitude are equally likely.
uint64_t OfAnyMagnitude(RandomStream& random, uint64_t most) {
  uint64_t magnitude = 1;
  while (magnitude < most && random.Chance(85)) magnitude *= 4;
  return std::min(most, random.Between(magnitude, 4 * magnitude));
}

std::vector<uint32_t> Lengths(RandomStream& random, bool grouped) {
  const bool is_short = random.Chance(40);
  const uint64_t bytes_each = (is_short ? 1 : 2) + (grouped ? 3 : 0);
  const uint64_t count = OfAnyMagnitude(random, kLargeRequestBytes / bytes_each);
  // Most are well below the longest.
  const uint64_t longest = is_short ? 127 : 16383;
  std::vector<uint32_t> lengths;
  lengths.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    lengths.push_back(static_cast<uint32_t>(random.Between(1, random.Between(1, longest))));
  }
  return lengths;
}

Topology AnyTopology(RandomStream& random) {
  Topology topology;
  topology.data_parallel = random.OneOf<uint32_t>({1, 2, 8, 8, 64, 1024, 65536});
  if (random.Chance(60)) {
    topology.pipeline_parallel = random.OneOf<uint32_t>({2, 8, 64, 512});
    const uint32_t most = kMaxVirtualStages / topology.pipeline_parallel;
    if (random.Chance(40))
      topology.virtual_pipeline = random.Chance(50) ? most : std::min(most, 2u);
  }
  return topology;
}

PassOptions AnyPass(RandomStream& random, uint32_t longest, bool dynamic) {
  PassOptions pass;
  pass.max_tokens_per_microbatch = longest * random.OneOf<uint32_t>({1, 1, 2, 8});
  pass.order = random.OneOf<MicrobatchOrder>(
      {MicrobatchOrder::kAsAssigned, MicrobatchOrder::kPipeline, MicrobatchOrder::kPipeline});
  if (random.Chance(20)) pass.min_microbatches = random.OneOf<uint32_t>({4, 64, 1000, 32000});
  if (random.Chance(15)) pass.microbatch_count_multiple = random.OneOf<uint32_t>({2, 64, 1000});
  if (random.Chance(10)) pass.max_sequences_per_microbatch = random.OneOf<uint32_t>({1, 8});
  pass.forward_only = random.Chance(20);
  pass.ignore_mini_batches = random.Chance(20);
  if (!dynamic && random.Chance(15)) {
    pass.layout = Layout::kPadded;
    pass.scan = random.Chance(50) ? Scan::kOptimal : Scan::kSorted;
  }
  return pass;
}

void AddPasses(RandomStream& random, bool dynamic, GeneratedRequest& request) {
  const uint32_t longest = *std::max_element(request.lengths.begin(), request.lengths.end());
  PlanOptions& options = request.options;
  const auto count = random.OneOf<size_t>({1, 1, 1, 2, 3, 8, 46, kMaxPasses});
  const bool alike = random.Chance(30);
  for (size_t i = 0; i < count; ++i) {
    options.passes.push_back(alike && i > 0 ? options.passes.front()
                                            : AnyPass(random, longest, dynamic));
    options.passes.back().name = absl::StrCat(i);
  }
  PassOptions& first = options.passes.front();
  if (dynamic) {
    if (random.Chance(30)) first.sharding = Sharding::kMegatronDynamicCp;
  } else if (random.Chance(20)) {
    first.sharding =
        random.OneOf<Sharding>({Sharding::kKarmarkarKarp, Sharding::kLpt, Sharding::kContiguous});
  }
}

void AddMiniBatches(RandomStream& random, GeneratedRequest& request) {
  const size_t sequences = request.lengths.size();
  MiniBatching& mini_batches = request.options.mini_batches;
  if (!request.group_ids.empty()) {
    mini_batches.groups =
        random.OneOf<GroupPolicy>({GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
    return;
  }
  if (random.Chance(50)) return;
  const auto size = random.OneOf<size_t>({1, 2, 16, 200, 1000, sequences / 4 + 1});
  if (size > sequences) return;
  request.lengths.resize(sequences / size * size);
  mini_batches.size = static_cast<uint32_t>(size);
  if (random.Chance(50)) mini_batches.max_delay = random.OneOf<uint32_t>({1, 4, 1000});
}

void AddChoice(RandomStream& random, GeneratedRequest& request) {
  const size_t sequences = request.lengths.size();
  Selection selection;
  selection.sequences = static_cast<uint32_t>(random.Between(1, sequences));
  const uint32_t size = request.options.mini_batches.size;
  if (size > 0) selection.sequences = std::max(selection.sequences / size, 1u) * size;
  selection.max_overtaking = random.OneOf<uint32_t>({0, 16, 1000, UINT32_MAX});
  request.options.selection = selection;
}

}  // namespace

GeneratedRequest GenerateLargeRequest(uint64_t seed) {
  RandomStream random(seed);
  GeneratedRequest request;
  const bool dynamic = random.Chance(30);
  const bool grouped = random.Chance(15);
  request.lengths = Lengths(random, grouped);
  if (grouped) {
    const uint64_t groups = request.lengths.size() / 4 + 1;
    for (size_t i = 0; i < request.lengths.size(); ++i) {
      request.group_ids.push_back(static_cast<uint32_t>(random.Between(0, groups)));
    }
  }
  PlanOptions& options = request.options;
  options.topology = AnyTopology(random);
  options.allow_empty_microbatches = random.Chance(70);
  options.overlong = OverlongPolicy::kTruncate;
  options.synchronization =
      random.Chance(50) ? Synchronization::kLockstep : Synchronization::kAccumulated;
  options.effort = random.OneOf<Effort>(
      {Effort::kFast, Effort::kDefault, Effort::kDefault, Effort::kDefault, Effort::kThorough});
  if (random.Chance(60)) options.cost_model.per_microbatch = 1024;
  if (dynamic) {
    options.topology.dynamic_context = DynamicContext{};
    options.cost_model.exchange = {{8, 0.02}, {0, 0.065}};
  }
  AddPasses(random, dynamic, request);
  AddMiniBatches(random, request);
  if (dynamic && options.mini_batches.groups == GroupPolicy::kSameRank) {
    options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  }
  if (random.Chance(15)) AddChoice(random, request);
  return request;
}

}  // namespace batchplan::testing
