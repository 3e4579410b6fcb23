// Plans that no planner would make: the checker answers, and never crashes, overflows or reads out
// of range. Most useful under the sanitizers.

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <vector>

#include "server/checker/check_plan.h"
#include "tests/server/checker/handmade_plan.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

// A small number, a number near a power of two, or any number.
uint32_t AnyNumber(RandomStream& random) {
  switch (random.Between(0, 3)) {
    case 0:
      return static_cast<uint32_t>(random.Between(0, 4));
    case 1:
      return static_cast<uint32_t>(random.Between(0, 20));
    case 2:
      return static_cast<uint32_t>((uint64_t{1} << random.Between(0, 32)) - random.Between(0, 1));
    default:
      return static_cast<uint32_t>(random.Between(0, UINT32_MAX));
  }
}

std::vector<uint32_t> AnyArray(RandomStream& random) {
  std::vector<uint32_t> values(random.Between(0, 14));
  for (uint32_t& value : values) value = AnyNumber(random);
  return values;
}

// Replaces, adds or removes an entry, or makes a new array.
void Disturb(RandomStream& random, std::vector<uint32_t>& values) {
  switch (random.Between(0, 3)) {
    case 0:
      if (!values.empty()) values[random.Between(0, values.size() - 1)] = AnyNumber(random);
      break;
    case 1:
      values.push_back(AnyNumber(random));
      break;
    case 2:
      if (!values.empty()) values.pop_back();
      break;
    default:
      values = AnyArray(random);
  }
}

PlanOptions AnyOptions(RandomStream& random, size_t passes) {
  PlanOptions options;
  uint32_t* const sizes[] = {&options.topology.data_parallel, &options.topology.context_parallel,
                             &options.topology.tensor_parallel, &options.topology.pipeline_parallel,
                             &options.topology.virtual_pipeline};
  for (uint32_t* size : sizes) {
    *size = random.Chance(90) ? static_cast<uint32_t>(random.Between(0, 3)) : AnyNumber(random);
  }
  options.topology.sequence_parallel = random.Chance(50);
  options.mini_batches.size = random.Chance(60) ? 0 : AnyNumber(random);
  options.mini_batches.group_count = random.Chance(80) ? 0 : AnyNumber(random);
  if (random.Chance(30)) options.mini_batches.last = LastMiniBatch::kSmaller;
  options.mini_batches.order = random.OneOf<Order>({Order::kPreserved, Order::kShuffled});
  options.mini_batches.groups =
      random.OneOf<GroupPolicy>({GroupPolicy::kIgnore, GroupPolicy::kSameMiniBatch,
                                 GroupPolicy::kSameRank, GroupPolicy::kSameMicrobatch});
  options.overlong = random.OneOf<OverlongPolicy>(
      {OverlongPolicy::kReject, OverlongPolicy::kTruncate, OverlongPolicy::kDrop});
  options.allow_empty_microbatches = random.Chance(50);
  for (size_t number = 0; number < passes; ++number) {
    PassOptions& pass = options.passes.emplace_back();
    pass.max_tokens_per_microbatch = AnyNumber(random);
    pass.length_multiple = AnyNumber(random);
    pass.min_microbatches = random.Chance(90) ? 1 : AnyNumber(random);
    pass.microbatch_count_multiple = random.Chance(90) ? 1 : AnyNumber(random);
    pass.max_sequences_per_microbatch = random.Chance(50) ? 0 : AnyNumber(random);
    pass.layout = random.OneOf<Layout>({Layout::kPacked, Layout::kPadded});
    pass.rows = random.OneOf<RowPadding>(
        {RowPadding::kNone, RowPadding::kLongest, RowPadding::kCapacity, RowPadding::kBuckets});
    pass.buckets = AnyArray(random);
    if (random.Chance(30)) {
      pass.sequence_counts =
          random.OneOf<EqualCounts>({EqualCounts::kExact, EqualCounts::kWithinOne});
    }
    pass.ignore_mini_batches = random.Chance(30);
  }
  return options;
}

TEST(GarbagePlanTest, RandomArraysNeverCrashTheChecker) {
  for (const uint64_t seed : Seeds(20000)) {
    RandomStream random(seed);
    std::vector<uint32_t> lengths = AnyArray(random);
    std::vector<uint32_t> group_ids(random.Chance(50) ? lengths.size() : random.Between(0, 3));
    for (uint32_t& id : group_ids) id = AnyNumber(random);
    std::vector<uint32_t> ranks(random.Chance(20) ? lengths.size() : 0);
    for (uint32_t& rank : ranks) rank = static_cast<uint32_t>(random.Between(0, 1));
    const size_t passes = random.Between(0, 3);
    const PlanOptions options = AnyOptions(random, passes);
    Plan plan;
    plan.passes.resize(random.Chance(90) ? passes : random.Between(0, 3));
    for (PassPlan& pass : plan.passes) {
      pass.sequence_index = AnyArray(random);
      pass.microbatch_offsets = AnyArray(random);
      pass.microbatches_per_rank = AnyArray(random);
      pass.row_widths = AnyArray(random);
      pass.sequence_lengths = AnyArray(random);
      if (random.Chance(50)) pass.shared_tokens = AnyArray(random);
      pass.length_multiple = AnyNumber(random);
    }
    std::vector<uint32_t> prefixes(random.Chance(20) ? lengths.size() : 0);
    for (uint32_t& prefix : prefixes) prefix = AnyNumber(random);
    std::vector<uint32_t> with(random.Chance(20) ? lengths.size() : 0);
    for (uint32_t& one : with) one = AnyNumber(random);
    // Almost always a violation; only that there is an answer matters.
    (void)CheckPlan({.lengths = lengths,
                     .group_ids = group_ids,
                     .pad_to = AnyNumber(random),
                     .ranks = ranks,
                     .shared_prefixes = prefixes,
                     .shared_with = with},
                    options, plan);
  }
}

TEST(GarbagePlanTest, DisturbedPlansOfSharedPrefixesNeverCrashTheChecker) {
  for (const uint64_t seed : Seeds(20000)) {
    RandomStream random(seed);
    HandmadePlan handmade;
    handmade.lengths = {5, 8, 6, 4};
    handmade.shared_prefixes = {0, 4, 3, 4};
    handmade.shared_with = {0, 0, 1, 2};
    handmade.options.passes = {PackedPass("train", 16)};
    handmade.AddPass({{{{{0, 1, 2}, 12, {0, 4, 3}}, {{3}, 4, {0}}}}}, 1);
    PassPlan& pass = handmade.plan.passes[0];
    std::vector<uint32_t>* const arrays[] = {&pass.shared_tokens,       &pass.sequence_index,
                                             &pass.sequence_lengths,    &pass.microbatch_offsets,
                                             &handmade.shared_prefixes, &handmade.shared_with,
                                             &handmade.lengths,         &handmade.group_ids};
    for (uint64_t times = random.Between(1, 3); times > 0; --times) {
      Disturb(random, *arrays[random.Between(0, std::size(arrays) - 1)]);
    }
    if (random.Chance(10)) handmade.options.selection.emplace().sequences = 3;
    (void)handmade.Check();
  }
}

// Also with a selection, limits and kinds.
TEST(GarbagePlanTest, DisturbedPlansOfLoadsNeverCrashTheChecker) {
  for (const uint64_t seed : Seeds(20000)) {
    RandomStream random(seed);
    HandmadePlan handmade;
    handmade.lengths = {5, 8, 6, 4};
    handmade.kinds = {1, 0, 1, 1};
    handmade.loads = {{.name = "a", .values = {3, 2, 4}, .has_items = true, .sequences = {0, 0, 2}},
                      {.name = "b", .values = {1, 0, 5, 2}}};
    handmade.options.topology.data_parallel = 2;
    handmade.options.cost_model.loads = {{.load = "a", .per_unit = 1, .dealt = true},
                                         {.load = "b", .per_unit = 1, .separate = true}};
    PassOptions train = PackedPass("train", 16);
    train.limits = {{"a", 6}, {"b", 6}};
    train.kinds_per_slot = random.OneOf<KindsPerSlot>(
        {KindsPerSlot::kAny, KindsPerSlot::kTogether, KindsPerSlot::kAlike});
    handmade.options.passes = {train};
    handmade.AddPass({{{{{0}, 5}, {{1}, 8}}, {{{2, 3}, 10}, {{}, 0}}}}, 1);
    handmade.options.allow_empty_microbatches = true;
    PassPlan& pass = handmade.plan.passes[0];
    std::vector<uint32_t>* const arrays[] = {
        &pass.item_ranks[0].ranks, &pass.sequence_index,   &pass.sequence_lengths,
        &pass.microbatch_offsets,  &pass.row_widths,       &pass.microbatches_per_rank,
        &handmade.kinds,           &handmade.lengths,      &handmade.loads[0].sequences,
        &handmade.group_ids,       &handmade.plan.deferred};
    for (uint64_t times = random.Between(1, 3); times > 0; --times) {
      Disturb(random, *arrays[random.Between(0, std::size(arrays) - 1)]);
    }
    handmade.options.overlong = random.OneOf<OverlongPolicy>(
        {OverlongPolicy::kReject, OverlongPolicy::kDrop, OverlongPolicy::kAlone});
    if (random.Chance(10)) handmade.options.selection.emplace().sequences = 3;
    if (random.Chance(10)) OptionsOf(handmade).limits[0].max_per_microbatch = 2;
    if (random.Chance(5)) pass.item_ranks.clear();
    if (random.Chance(5)) pass.metrics.loads.clear();
    if (random.Chance(5)) handmade.options.topology.data_parallel = AnyNumber(random);
    if (random.Chance(5)) handmade.options.topology.dynamic_context.emplace();
    (void)handmade.Check();
  }
}

TEST(GarbagePlanTest, DisturbedPlansNeverCrashTheChecker) {
  for (const uint64_t seed : Seeds(20000)) {
    RandomStream random(seed);
    HandmadePlan handmade = TwoMiniBatches();
    PassPlan& pass = handmade.plan.passes[0];
    for (uint64_t times = random.Between(1, 3); times > 0; --times) {
      switch (random.Between(0, 8)) {
        case 0:
          Disturb(random, pass.sequence_index);
          break;
        case 1:
          Disturb(random, pass.microbatch_offsets);
          break;
        case 2:
          Disturb(random, pass.microbatches_per_rank);
          break;
        case 3:
          Disturb(random, pass.row_widths);
          break;
        case 4:
          Disturb(random, pass.sequence_lengths);
          break;
        case 5:
          Disturb(random, handmade.lengths);
          break;
        case 6:
          Disturb(random, handmade.group_ids);
          break;
        case 7:
          handmade.plan.excluded.push_back(
              {AnyNumber(random), AnyNumber(random), static_cast<ExclusionReason>(1)});
          break;
        default:
          handmade.options = AnyOptions(random, 1);
      }
    }
    (void)handmade.Check();
  }
}

}  // namespace
}  // namespace batchplan::testing
