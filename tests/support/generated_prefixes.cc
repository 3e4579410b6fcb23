// Random shared prefixes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

// Adapts a pass to shared prefixes.
void LayPrefixes(RandomStream& random, PassOptions& pass) {
  if (pass.layout == Layout::kPadded && random.Chance(50)) {
    pass.layout = Layout::kPacked;
    pass.rows = random.OneOf<RowPadding>({RowPadding::kNone, RowPadding::kCapacity});
  }
  pass.ignore_shared_prefixes = pass.layout == Layout::kPadded || random.Chance(15);
}

// Sometimes shards as trainers of trees do, unless the request asks for what they do not keep.
void MaybeShardTrees(RandomStream& random, GeneratedRequest& request) {
  const GroupPolicy groups = request.options.mini_batches.groups;
  PassOptions& first = request.options.passes[0];
  if (!random.Chance(15) || !request.ranks.empty() || groups == GroupPolicy::kSameRank ||
      groups == GroupPolicy::kSameMicrobatch || first.layout == Layout::kPadded) {
    return;
  }
  first.sharding =
      random.OneOf<Sharding>({Sharding::kArealTree, Sharding::kTrlTree, Sharding::kArtPrefixTree});
  first.sequence_counts = EqualCounts::kAny;
}

// Lets most sequences share with an earlier one. In some forests it is mostly the one before, which
// makes chains.
void GrowForest(RandomStream& random, GeneratedRequest& request) {
  const auto chained = random.OneOf<uint32_t>({0, 20, 90, 100});
  const auto related = random.OneOf<uint32_t>({30, 80, 95, 100});
  const auto deep = random.OneOf<uint32_t>({10, 60, 90});
  std::vector<uint32_t>& lengths = request.lengths;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i == 0 || !random.Chance(related)) {
      request.shared_prefixes.push_back(0);
      // Ignored, since this sequence shares nothing.
      request.shared_with.push_back(static_cast<uint32_t>(random.Between(0, lengths.size())));
      continue;
    }
    const auto with =
        static_cast<uint32_t>(random.Chance(chained) ? i - 1 : random.Between(0, i - 1));
    if (random.Chance(10)) lengths[i] = lengths[with];
    const uint32_t longest = std::min(lengths[i], lengths[with]);
    // A prefix of full length makes one of them a prefix of the other, or a copy.
    const uint64_t least = random.Chance(deep) ? (longest + 1) / 2 : 1;
    const bool is_whole = random.Chance(15);
    request.shared_with.push_back(with);
    request.shared_prefixes.push_back(
        is_whole ? longest : static_cast<uint32_t>(random.Between(least, longest)));
  }
}

}  // namespace

void AddSharedPrefixes(uint64_t seed, GeneratedRequest* request) {
  if (request->options.topology.dynamic_context) return;
  RandomStream random(seed ^ 0x6B6B6B6B);
  for (PassOptions& pass : request->options.passes) LayPrefixes(random, pass);
  MaybeShardTrees(random, *request);
  if (request->group_ids.empty() || random.Chance(60)) {
    GrowForest(random, *request);
    return;
  }
  // Groups have prompts of one length, or of lengths that vary within the group.
  const bool is_even = random.Chance(60);
  std::map<uint32_t, std::pair<size_t, uint32_t>> first_and_prompt;
  for (size_t i = 0; i < request->lengths.size(); ++i) {
    const uint32_t own = request->lengths[i];
    const auto prompt = static_cast<uint32_t>(random.Between(0, own));
    const auto [group, is_first] = first_and_prompt.try_emplace(request->group_ids[i], i, prompt);
    const uint32_t longest = std::min(own, request->lengths[group->second.first]);
    const uint32_t wanted = is_even ? group->second.second : prompt;
    // Ignored for the first sequence of a group.
    request->shared_prefixes.push_back(is_first ? prompt : std::min(wanted, longest));
  }
}

}  // namespace batchplan::testing
