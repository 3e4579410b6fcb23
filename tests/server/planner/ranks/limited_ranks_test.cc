// Ranks with limited loads, filled by every preset of ranks, packer and scan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/place/place.h"
#include "server/planner/ranks/fill_bins.h"
#include "server/planner/ranks/fill_ranks.h"
#include "server/planner/ranks/solve.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/presets.h"
#include "server/planner/request/sequence_groups.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using testing::RandomStream;

// A pass over random sequences of up to 100 tokens with two limited loads, and everything that it
// views.
struct LimitedPass {
  explicit LimitedPass(uint64_t seed) : LimitedPass(RandomStream(seed)) {}
  LimitedPass(const LimitedPass&) = delete;
  LimitedPass& operator=(const LimitedPass&) = delete;

  Pass Create() {
    return *Pass::Create(manifest, options, 0,
                         {{.capacity = options.passes[0].max_tokens_per_microbatch}}, planned,
                         alignments, groups, 1, {}, NothingShared(), loads);
  }

  // Whether the micro-batch may have these sequences.
  bool IsLegal(const Pass& pass, std::span<const SequenceIndex> microbatch) const {
    const PassOptions& of_pass = options.passes[0];
    uint64_t tokens = 0;
    uint64_t widest = 0;
    std::vector<double> sums(limits.size(), 0);
    for (const SequenceIndex sequence : microbatch) {
      const bool alone = std::ranges::any_of(limits, [&](size_t load) {
        return values[load][sequence.value()] > of_pass.limits[load].max_per_microbatch;
      });
      EXPECT_EQ(pass.RunsAlone(sequence), alone);
      if (alone) return microbatch.size() == 1;
      tokens += lengths[sequence.value()];
      widest = std::max<uint64_t>(widest, lengths[sequence.value()]);
      for (const size_t load : limits) sums[load] += values[load][sequence.value()];
    }
    for (const size_t load : limits) {
      if (sums[load] > of_pass.limits[load].max_per_microbatch * (1 + 1e-9)) return false;
    }
    if (of_pass.layout == Layout::kPadded) tokens = widest * microbatch.size();
    return tokens <= of_pass.max_tokens_per_microbatch;
  }

  void ExpectLegal(const Pass& pass, const Placement& placement) const {
    std::vector<uint32_t> placed;
    for (size_t m = 0; m < placement.microbatches.size(); ++m) {
      ASSERT_TRUE(IsLegal(pass, placement.microbatches[m]));
      for (const SequenceIndex sequence : placement.microbatches[m]) {
        placed.push_back(sequence.value());
      }
    }
    std::ranges::sort(placed);
    std::vector<uint32_t> all(lengths.size());
    std::iota(all.begin(), all.end(), 0u);
    ASSERT_EQ(placed, all);
  }

  std::vector<uint32_t> lengths;
  const std::vector<size_t> limits = {0, 1};
  std::vector<std::vector<double>> values;
  PlanOptions options;
  Manifest manifest;
  PlannedLengths planned;
  Alignments alignments;
  Groups groups;
  Loads loads;
  std::vector<SequenceIndex> sequences;

 private:
  explicit LimitedPass(RandomStream random)
      : lengths(RandomLengths(random)),
        values{RandomValues(random, lengths.size()), RandomValues(random, lengths.size())},
        options(RandomOptions(random, values)),
        manifest{.lengths = lengths,
                 .loads = {{.name = "patches", .values = values[0]},
                           {.name = "logits", .values = values[1]}}},
        planned{.lengths = lengths, .excluded = {}},
        alignments(planned.lengths),
        groups(manifest, GroupPolicy::kIgnore),
        loads(manifest) {
    for (uint32_t i = 0; i < lengths.size(); ++i) sequences.emplace_back(i);
  }

  static std::vector<uint32_t> RandomLengths(RandomStream& random) {
    std::vector<uint32_t> lengths(8 * random.Between(4, 12));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, 100));
    return lengths;
  }

  static std::vector<double> RandomValues(RandomStream& random, size_t count) {
    std::vector<double> values(count, 0);
    const auto share = random.OneOf<uint32_t>({20, 100});
    for (double& value : values) {
      if (random.Chance(share)) value = static_cast<double>(random.Between(1, 40)) / 3;
    }
    return values;
  }

  static PlanOptions RandomOptions(RandomStream& random,
                                   const std::vector<std::vector<double>>& values) {
    PlanOptions options;
    options.topology.data_parallel = random.OneOf<uint32_t>({1, 2, 4});
    options.allow_empty_microbatches = random.Chance(20);
    options.overlong = random.Chance(50) ? OverlongPolicy::kAlone : OverlongPolicy::kReject;
    const auto preset =
        random.OneOf<const char*>({"balanced", "nemo_rl_packing", "nemo_rl_dynamic", "roll_packing",
                                   "roll_dynamic", "mindspeed_rl", "verl"});
    PassOptions& pass = options.passes.emplace_back(*PresetPass(preset, options.topology));
    pass.max_tokens_per_microbatch = static_cast<uint32_t>(random.Between(200, 400));
    if (pass.layout == Layout::kPacked) {
      pass.packer = random.OneOf<Packer>({Packer::kBalanced, Packer::kConcatenative,
                                          Packer::kFirstFitDecreasing, Packer::kFirstFitShuffle,
                                          Packer::kModifiedFirstFitDecreasing,
                                          Packer::kBestFitDecreasing, Packer::kKarmarkarKarp});
    } else {
      pass.scan = random.OneOf<Scan>({Scan::kSorted, Scan::kOptimal});
    }
    if (random.Chance(30)) pass.microbatch_count_multiple = 2;
    for (size_t load = 0; load < values.size(); ++load) {
      const double largest = *std::ranges::max_element(values[load]);
      const double parts = static_cast<double>(random.Between(5, 16)) / 4;
      const bool above = options.overlong == OverlongPolicy::kAlone && random.Chance(50);
      pass.limits.push_back({.load = load == 0 ? "patches" : "logits",
                             .max_per_microbatch = (above ? 0.8 : parts) * (largest + 0.1)});
    }
    return options;
  }
};

TEST(LimitedRanksTest, EveryShardingPackerAndScanKeepsTheLimits) {
  int placed = 0;
  for (const uint64_t seed : testing::Seeds(1500)) {
    SCOPED_TRACE(seed);
    LimitedPass limited(seed);
    const Pass pass = limited.Create();
    const MiniBatchItems items(pass, limited.sequences);
    const Allowance allowance;
    if (pass.options().layout == Layout::kPadded) {
      const std::optional<MiniBatchPlacement> solved = SolvePadded(pass, items, allowance);
      if (solved) {
        ASSERT_NO_FATAL_FAILURE(limited.ExpectLegal(pass, solved->lead()));
      }
    }
    PassOptions options = pass.options();
    if (options.sharding == Sharding::kBalanced) options.sharding = Sharding::kLpt;
    const Pass by_ranks = pass.With(options);
    const absl::StatusOr<MiniBatchPlacement> sharded = PlaceBySharding(
        by_ranks, items, {.seed = seed, .where = "pass", .allowance = allowance}, kNoStepTimeLimit);
    if (!sharded.ok()) {
      ASSERT_EQ(sharded.status().code(), absl::StatusCode::kInvalidArgument) << sharded.status();
      ASSERT_THAT(sharded.status().message(), HasSubstr(" of load \"logits\""));
      continue;
    }
    ++placed;
    ASSERT_NO_FATAL_FAILURE(limited.ExpectLegal(by_ranks, sharded->lead()));
    // Every rank has at least as many micro-batches as its limits need.
    const Placement& lead = sharded->lead();
    for (size_t rank = 0; rank < lead.ranks(); ++rank) {
      const Items own = pass.ItemsOf(sharded->shares[rank]);
      if (options.layout != Layout::kPadded || own.size() == 0) continue;
      ASSERT_GE(lead.slots, FewestPadded(pass, own));
    }
  }
  EXPECT_GT(placed, testing::Cases(1000));
}

TEST(LimitedRanksTest, WhatRunsAloneFillsAnItemsLoads) {
  LimitedPass limited(1);
  limited.options.overlong = OverlongPolicy::kAlone;
  limited.options.passes[0].limits[0].max_per_microbatch = 5;
  const Pass pass = limited.Create();
  const Items items = pass.ItemsOf(limited.sequences);
  ASSERT_EQ(items.limited.size(), 2);
  bool some_alone = false;
  for (uint32_t i = 0; i < items.size(); ++i) {
    ASSERT_LE(items.limited[0].values[i], items.limited[0].most);
    if (limited.values[0][i] <= 5) continue;
    some_alone = true;
    EXPECT_DOUBLE_EQ(items.limited[0].values[i], 5);
    EXPECT_DOUBLE_EQ(items.limited[1].values[i],
                     limited.options.passes[0].limits[1].max_per_microbatch);
  }
  EXPECT_TRUE(some_alone);
}

}  // namespace
}  // namespace batchplan
