#include "tests/support/invalid_request.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/support/invalid_loads.h"

namespace batchplan::testing {
namespace {

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

PassOptions& AnyPass(GeneratedRequest& request, RandomStream& random) {
  return request.options.passes[random.Between(0, request.options.passes.size() - 1)];
}

// Packed rows in buckets, for mistakes in the buckets.
PassOptions& Bucketed(GeneratedRequest& request, RandomStream& random) {
  PassOptions& pass = AnyPass(request, random);
  pass.layout = Layout::kPacked;
  pass.packer = Packer::kFirstFitDecreasing;
  pass.rows = RowPadding::kBuckets;
  pass.buckets.clear();
  return pass;
}

// The whole manifest is one mini-batch on three ranks, with room for everything; only a sharding
// may be hard to satisfy.
PassOptions& ThreeRanks(GeneratedRequest& request, size_t sequences) {
  request.lengths.assign(sequences, 1);
  request.group_ids.clear();
  request.ranks.clear();
  request.pad_to = 0;
  request.options.mini_batches = {};
  request.options.topology = {.data_parallel = 3};
  request.options.allow_empty_microbatches = false;
  PassOptions pass;
  pass.max_tokens_per_microbatch = 100;
  pass.packer = Packer::kFirstFitDecreasing;
  pass.sharding = Sharding::kLpt;
  request.options.passes = {pass};
  return request.options.passes[0];
}

std::vector<Mistake> TopologyMistakes() {
  std::vector<Mistake> mistakes;
  const struct {
    std::string name;
    uint32_t Topology::*size;
  } sizes[] = {{"data_parallel", &Topology::data_parallel},
               {"context_parallel", &Topology::context_parallel},
               {"tensor_parallel", &Topology::tensor_parallel},
               {"pipeline_parallel", &Topology::pipeline_parallel},
               {"virtual_pipeline", &Topology::virtual_pipeline}};
  for (const auto& [name, size] : sizes) {
    mistakes.push_back(
        {name, "topology." + name, [size = size](GeneratedRequest& request, RandomStream& random) {
           request.options.topology.*size =
               random.OneOf<uint32_t>({0, kMaxParallelSize + 1, kMost});
         }});
  }
  return mistakes;
}

std::vector<Mistake> CostMistakes() {
  std::vector<Mistake> mistakes;
  const struct {
    std::string name;
    double CostModel::*coefficient;
  } coefficients[] = {{"per_token", &CostModel::per_token},
                      {"per_token_squared", &CostModel::per_token_squared},
                      {"per_microbatch", &CostModel::per_microbatch},
                      {"per_sequence", &CostModel::per_sequence}};
  for (const auto& [name, coefficient] : coefficients) {
    mistakes.push_back(
        {name, "cost_model." + name,
         [coefficient = coefficient](GeneratedRequest& request, RandomStream& random) {
           request.options.cost_model.*coefficient =
               random.OneOf<double>({-1, -1e-300, std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()});
         }});
  }
  const struct {
    const char* name;
    const char* field;
    std::vector<ContextExchange> exchange;
  } exchanges[] = {
      {"negative_exchange", "cost_model.exchange[1].per_token", {{2, 1}, {0, -1}}},
      {"descending_exchange", "cost_model.exchange[2].up_to_size", {{2, 1}, {8, 1}, {8, 2}}},
      {"exchange_after_the_last", "cost_model.exchange[0].up_to_size", {{0, 1}, {8, 1}}},
      {"too_many_exchanges", "cost_model.exchange", std::vector<ContextExchange>(65)}};
  for (const auto& [name, field, exchange] : exchanges) {
    mistakes.push_back(
        {name, field, [exchange = exchange](GeneratedRequest& request, RandomStream&) {
           request.options.cost_model.exchange = exchange;
         }});
  }
  mistakes.push_back({"no_cost", "cost_model", [](GeneratedRequest& request, RandomStream&) {
                        request.options.cost_model = {0, 0, 0};
                      }});
  mistakes.push_back(
      {"overflowing_cost", "cost_model", [](GeneratedRequest& request, RandomStream&) {
         request.options.cost_model = {1e308, 1e308, 1e308};
       }});
  return mistakes;
}

std::vector<Mistake> ManifestMistakes() {
  return {
      {"no_lengths", "manifest.lengths",
       [](GeneratedRequest& request, RandomStream&) {
         request.lengths.clear();
         request.group_ids.clear();
       }},
      {"zero_length", "manifest.lengths[",
       [](GeneratedRequest& request, RandomStream& random) {
         request.lengths[random.Between(0, request.lengths.size() - 1)] = 0;
       }},
      {"group_ids", "manifest.group_ids",
       [](GeneratedRequest& request, RandomStream&) {
         request.group_ids.assign(request.lengths.size() + 1, 0);
       }},
      {"no_groups_to_count", "manifest.group_ids",
       [](GeneratedRequest& request, RandomStream&) {
         request.group_ids.clear();
         request.options.mini_batches = {.group_count = 2};
       }},
      {"groups_that_do_not_divide", "mini_batches.group_count",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9);
         request.group_ids = {1, 1, 2, 2, 3, 3, 4, 4, 4};
         request.options.mini_batches = {.group_count = 3};
       }},
      {"size_and_groups", "mini_batches.size is 3, and group_count 2",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9);
         request.group_ids = {1, 1, 1, 2, 2, 2, 3, 3, 3};
         request.options.mini_batches = {.size = 3, .group_count = 2};
       }},
      {"no_groups", "manifest.group_ids",
       [](GeneratedRequest& request, RandomStream& random) {
         request.group_ids.clear();
         request.options.mini_batches.groups = random.OneOf<GroupPolicy>(
             {GroupPolicy::kSameMiniBatch, GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
       }},
      {"pad_to", "manifest.pad_to",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9);
         request.lengths[4] = 7;
         request.pad_to = 6;
       }},
      {"overlong", "max_tokens_per_microbatch",
       [](GeneratedRequest& request, RandomStream& random) {
         request.options.overlong = OverlongPolicy::kReject;
         request.pad_to = 0;
         request.lengths[random.Between(0, request.lengths.size() - 1)] = kMost;
       }},
      {"alone_in_a_group", "overlong is OVERLONG_POLICY_ALONE, but mini_batches.groups",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9);
         request.group_ids.assign(9, 1);
         request.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
         request.options.overlong = OverlongPolicy::kAlone;
       }},
      {"alone_beside_rows_as_wide", "overlong is OVERLONG_POLICY_ALONE, but passes[0].packed.rows",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9).rows = RowPadding::kLongest;
         request.options.overlong = OverlongPolicy::kAlone;
       }},
      {"alone_at_a_shared_width", "overlong is OVERLONG_POLICY_ALONE, but passes[1].padded.scan",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9).sharding = Sharding::kStrideSorted;
         PassOptions pass = request.options.passes[0];
         pass.name = "padded";
         pass.layout = Layout::kPadded;
         request.options.passes.push_back(pass);
         request.options.overlong = OverlongPolicy::kAlone;
       }},
      {"alone_and_too_long", "manifest.lengths[4] is 4294967295",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 9).length_multiple = 4;
         request.lengths[4] = kMost;
         request.options.overlong = OverlongPolicy::kAlone;
       }},
      {"all_dropped", "overlong",
       [](GeneratedRequest& request, RandomStream&) {
         request.options.overlong = OverlongPolicy::kDrop;
         request.pad_to = 0;
         for (uint32_t& length : request.lengths) length = kMost;
       }},
      {"mini_batch_size", "mini_batches.size",
       [](GeneratedRequest& request, RandomStream& random) {
         const auto count = static_cast<uint32_t>(request.lengths.size());
         request.options.mini_batches.group_count = 0;
         request.options.mini_batches.last = LastMiniBatch::kExact;
         request.options.mini_batches.size =
             count < 3 ? count + 1 : random.OneOf<uint32_t>({count - 1, count + 1, 2 * count});
       }},
      {"torn_group", "mini_batches.",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 12);
         request.group_ids = {1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2};
         request.options.mini_batches = {.size = 6, .groups = GroupPolicy::kSameMiniBatch};
       }},
  };
}

std::vector<Mistake> PassMistakes() {
  return {
      {"no_passes", "passes",
       [](GeneratedRequest& request, RandomStream&) { request.options.passes.clear(); }},
      {"pass_name", "passes[1].name",
       [](GeneratedRequest& request, RandomStream&) {
         request.options.passes.resize(1);
         request.options.passes.push_back(request.options.passes[0]);
       }},
      {"budget", ".max_tokens_per_microbatch",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = AnyPass(request, random);
         pass.max_tokens_per_microbatch = 0;
         pass.buckets.clear();
         pass.rows = RowPadding::kNone;
       }},
      {"length_multiple", "length_multiple",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = AnyPass(request, random);
         pass.length_multiple =
             random.OneOf<uint32_t>({0, pass.max_tokens_per_microbatch + 1, kMost});
       }},
      {"min_microbatches", "min_microbatches",
       [](GeneratedRequest& request, RandomStream& random) {
         AnyPass(request, random).min_microbatches = 0;
       }},
      {"microbatch_count_multiple", "microbatch_count_multiple",
       [](GeneratedRequest& request, RandomStream& random) {
         AnyPass(request, random).microbatch_count_multiple = 0;
       }},
      {"too_few_sequences", "data_parallel",
       [](GeneratedRequest& request, RandomStream& random) {
         ThreeRanks(request, 2).sharding =
             random.OneOf<Sharding>({Sharding::kDealBins, Sharding::kKarmarkarKarp, Sharding::kLpt,
                                     Sharding::kContiguous});
       }},
      {"too_many_microbatches", "passes[0]",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = ThreeRanks(request, 9);
         pass.sharding = random.OneOf<Sharding>({Sharding::kDealBins, Sharding::kStrideSorted,
                                                 Sharding::kKarmarkarKarp, Sharding::kLpt,
                                                 Sharding::kContiguous});
         pass.min_microbatches = random.OneOf<uint32_t>({4, kMost});
       }},
      {"torn_microbatch", "mini_batches.groups",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = ThreeRanks(request, 9);
         request.options.mini_batches = {.groups = GroupPolicy::kSameMicrobatch};
         request.group_ids = {1, 1, 1, 2, 2, 2, 3, 3, 3};
         if (random.Chance(50)) {
           pass.max_tokens_per_microbatch = 2;
         } else {
           pass.max_sequences_per_microbatch = 2;
         }
       }},
  };
}

std::vector<Mistake> ShardingMistakes() {
  return {
      {"padded_bins", "passes[0].sharding",
       [](GeneratedRequest& request, RandomStream&) {
         PassOptions& pass = request.options.passes[0];
         pass.sharding = Sharding::kDealBins;
         pass.layout = Layout::kPadded;
         pass.sequence_counts = EqualCounts::kAny;
       }},
      {"equal_bins", "passes[0].equal_sequence_counts",
       [](GeneratedRequest& request, RandomStream&) {
         PassOptions& pass = ThreeRanks(request, 9);
         pass.sharding = Sharding::kDealBins;
         pass.sequence_counts = EqualCounts::kExact;
       }},
      {"bins_within_one", "passes[0].sequence_counts is EQUAL_COUNTS_WITHIN_ONE",
       [](GeneratedRequest& request, RandomStream&) {
         PassOptions& pass = ThreeRanks(request, 10);
         pass.sharding = Sharding::kDealBins;
         pass.sequence_counts = EqualCounts::kWithinOne;
       }},
      {"groups_not_within_one", "sequence_counts is EQUAL_COUNTS_WITHIN_ONE",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = ThreeRanks(request, 11);
         request.options.mini_batches = {.groups = GroupPolicy::kSameRank};
         request.group_ids = {1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4};
         pass.sharding = random.OneOf<Sharding>(
             {Sharding::kKarmarkarKarp, Sharding::kLpt, Sharding::kContiguous});
         pass.sequence_counts = EqualCounts::kWithinOne;
       }},
      {"indivisible_counts", "equal_sequence_counts",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = ThreeRanks(request, 10);
         pass.sharding = random.OneOf<Sharding>(
             {Sharding::kKarmarkarKarp, Sharding::kLpt, Sharding::kContiguous});
         pass.sequence_counts = EqualCounts::kExact;
       }},
      {"indivisible_stride", "SHARDING_STRIDE_SORTED",
       [](GeneratedRequest& request, RandomStream&) {
         ThreeRanks(request, 10).sharding = Sharding::kStrideSorted;
       }},
      {"indivisible_groups", "equal_sequence_counts",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = ThreeRanks(request, 12);
         request.options.mini_batches = {.groups = GroupPolicy::kSameRank};
         request.group_ids = {1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4};
         pass.sharding = random.OneOf<Sharding>(
             {Sharding::kKarmarkarKarp, Sharding::kLpt, Sharding::kContiguous});
         pass.sequence_counts = EqualCounts::kExact;
       }},
  };
}

// Nine sequences, three on each of three ranks.
PassOptions& Dispatched(GeneratedRequest& request) {
  PassOptions& pass = ThreeRanks(request, 9);
  pass.sharding = Sharding::kBalanced;
  request.options.overlong = OverlongPolicy::kReject;
  request.ranks = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  return pass;
}

std::vector<Mistake> RankMistakes() {
  return {
      {"rank_count", "manifest.ranks has ",
       [](GeneratedRequest& request, RandomStream& random) {
         Dispatched(request);
         request.ranks.resize(random.OneOf<size_t>({1, 8, 10}));
       }},
      {"rank_value", "manifest.ranks[4] is ",
       [](GeneratedRequest& request, RandomStream& random) {
         Dispatched(request);
         request.ranks[4] = random.OneOf<uint32_t>({3, kMost});
       }},
      {"ranks_and_sharding", "passes[0].sharding is SHARDING_",
       [](GeneratedRequest& request, RandomStream& random) {
         Dispatched(request).sharding = random.OneOf<Sharding>(
             {Sharding::kDealBins, Sharding::kStrideSorted, Sharding::kKarmarkarKarp,
              Sharding::kLpt, Sharding::kContiguous});
       }},
      {"group_on_two_ranks", "manifest.ranks[8] is 2",
       [](GeneratedRequest& request, RandomStream& random) {
         Dispatched(request);
         request.group_ids = {1, 2, 3, 1, 2, 3, 1, 2, 1};
         request.options.mini_batches.groups =
             random.OneOf<GroupPolicy>({GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
       }},
      {"ranks_not_within_one", "sequence_counts is EQUAL_COUNTS_WITHIN_ONE",
       [](GeneratedRequest& request, RandomStream&) {
         Dispatched(request).sequence_counts = EqualCounts::kWithinOne;
         request.ranks[3] = 1;
       }},
      {"ranks_of_unequal_counts", "equal_sequence_counts",
       [](GeneratedRequest& request, RandomStream&) {
         Dispatched(request).sequence_counts = EqualCounts::kExact;
         request.ranks[3] = 1;
       }},
      {"rank_without_sequences", "allow_empty_microbatches",
       [](GeneratedRequest& request, RandomStream& random) {
         Dispatched(request);
         if (random.Chance(50)) {
           for (uint32_t& rank : request.ranks) rank = rank == 1 ? 2 : rank;
         } else {
           // Each rank has enough sequences in all, but not in each mini-batch.
           request.ranks = {0, 1, 0, 0, 1, 2, 0, 1, 2};
           request.options.mini_batches.size = 3;
         }
       }},
      {"rank_with_too_few_sequences", "rank 2 has 1 sequence",
       [](GeneratedRequest& request, RandomStream&) {
         Dispatched(request).min_microbatches = 2;
         request.ranks = {0, 1, 2, 0, 1, 0, 0, 1, 0};
       }},
  };
}

std::vector<Mistake> BucketMistakes() {
  return {
      {"no_buckets", "packed.buckets",
       [](GeneratedRequest& request, RandomStream& random) { Bucketed(request, random); }},
      {"unused_buckets", "packed.buckets",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = Bucketed(request, random);
         pass.rows = random.OneOf<RowPadding>(
             {RowPadding::kNone, RowPadding::kLongest, RowPadding::kCapacity});
         pass.buckets = {1};
       }},
      {"zero_bucket", "packed.buckets[0]",
       [](GeneratedRequest& request, RandomStream& random) {
         Bucketed(request, random).buckets = {0};
       }},
      {"wide_bucket", "packed.buckets[0]",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = Bucketed(request, random);
         pass.buckets = {pass.max_tokens_per_microbatch + 1};
       }},
      {"descending_buckets", "packed.buckets[1]",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = Bucketed(request, random);
         pass.buckets.assign(2, pass.max_tokens_per_microbatch);
       }},
      {"unaligned_bucket", "packed.buckets[0]",
       [](GeneratedRequest& request, RandomStream&) {
         PassOptions& pass = ThreeRanks(request, 9);
         pass.length_multiple = 4;
         pass.rows = RowPadding::kBuckets;
         pass.buckets = {7, 100};
       }},
      {"narrow_buckets", "packed.buckets",
       [](GeneratedRequest& request, RandomStream&) {
         PassOptions& pass = ThreeRanks(request, 9);
         request.lengths[3] = 9;
         pass.rows = RowPadding::kBuckets;
         pass.buckets = {4, 8};
       }},
  };
}

// Nine sequences of eight tokens, each sharing five with the first.
PassOptions& Sharing(GeneratedRequest& request) {
  PassOptions& pass = ThreeRanks(request, 9);
  pass.sharding = Sharding::kBalanced;
  request.options.overlong = OverlongPolicy::kReject;
  request.lengths.assign(9, 8);
  request.shared_prefixes = {0, 5, 5, 5, 5, 5, 5, 5, 5};
  request.shared_with.assign(9, 0);
  return pass;
}

std::vector<Mistake> PrefixMistakes() {
  return {
      {"shared_prefixes", "manifest.shared_prefixes has 10 entries",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request);
         request.shared_prefixes.push_back(1);
       }},
      {"shared_with", "manifest.shared_with has 8 entries",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request);
         request.shared_with.pop_back();
       }},
      {"shared_with_alone", "manifest.shared_with is set, but shared_prefixes is empty",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request);
         request.shared_prefixes.clear();
       }},
      {"shared_with_nobody", "manifest.shared_prefixes is set, but neither shared_with",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request);
         request.shared_with.clear();
       }},
      {"shared_with_a_later_one", "manifest.shared_with[4] is ",
       [](GeneratedRequest& request, RandomStream& random) {
         Sharing(request);
         request.shared_with[4] = random.OneOf<uint32_t>({4, 5, 8, 9, kMost});
       }},
      {"shared_beyond_itself", "manifest.shared_prefixes[4] is ",
       [](GeneratedRequest& request, RandomStream& random) {
         Sharing(request);
         request.lengths[4] = 6;
         request.shared_prefixes[4] = random.OneOf<uint32_t>({7, 8, kMost});
       }},
      {"shared_beyond_the_other", "manifest.shared_prefixes[4] is 6",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request);
         request.lengths[0] = 5;
         request.shared_prefixes[4] = 6;
       }},
      {"shared_and_padded", "manifest.shared_prefixes is set, but passes[0] has the padded layout",
       [](GeneratedRequest& request, RandomStream&) { Sharing(request).layout = Layout::kPadded; }},
      {"shared_and_dynamic", "manifest.shared_prefixes is set beside topology.dynamic_context",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request);
         request.options.topology.dynamic_context.emplace();
       }},
      {"group_of_a_large_tree", "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group 7",
       [](GeneratedRequest& request, RandomStream&) {
         Sharing(request).max_tokens_per_microbatch = 13;
         request.group_ids = {1, 1, 2, 2, 7, 7, 7, 8, 9};
         request.options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
       }},
      {"trees_of_padded_rows", "passes[0].sharding",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = Sharing(request);
         pass.sharding = random.OneOf<Sharding>(
             {Sharding::kArealTree, Sharding::kTrlTree, Sharding::kArtPrefixTree});
         pass.layout = Layout::kPadded;
         pass.ignore_shared_prefixes = true;
       }},
      {"trees_of_equal_counts", "passes[0].equal_sequence_counts",
       [](GeneratedRequest& request, RandomStream& random) {
         PassOptions& pass = Sharing(request);
         pass.sharding = random.OneOf<Sharding>(
             {Sharding::kArealTree, Sharding::kTrlTree, Sharding::kArtPrefixTree});
         pass.sequence_counts = EqualCounts::kExact;
       }},
      {"trees_of_groups", "mini_batches.groups keeps groups on a rank, but passes[0].sharding",
       [](GeneratedRequest& request, RandomStream& random) {
         Sharing(request).sharding = random.OneOf<Sharding>(
             {Sharding::kArealTree, Sharding::kTrlTree, Sharding::kArtPrefixTree});
         request.group_ids.assign(9, 3);
         request.options.mini_batches.groups =
             random.OneOf<GroupPolicy>({GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
       }},
  };
}

std::vector<Mistake> AllMistakes() {
  std::vector<Mistake> all;
  for (const auto& some :
       {TopologyMistakes(), CostMistakes(), ManifestMistakes(), PassMistakes(), ShardingMistakes(),
        RankMistakes(), BucketMistakes(), PrefixMistakes(), LoadMistakes()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

std::span<const Mistake> Mistakes() {
  static const std::vector<Mistake>& mistakes = *new std::vector<Mistake>(AllMistakes());
  return mistakes;
}

}  // namespace batchplan::testing
