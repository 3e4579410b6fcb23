#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "server/rendezvous/joined_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

// The slices of all ranks, put together again.
v1::PassPlan Join(const std::vector<v1::PlanBatchResponse>& slices, int pass) {
  v1::PassPlan whole = slices[0].passes(pass);
  whole.clear_sequence_index();
  whole.clear_sequence_lengths();
  whole.clear_shared_tokens();
  whole.clear_row_widths();
  whole.clear_microbatch_offsets();
  whole.add_microbatch_offsets(0);
  int microbatch = 0;
  for (const uint32_t slots : whole.microbatches_per_rank()) {
    for (const v1::PlanBatchResponse& slice : slices) {
      const v1::PassPlan& part = slice.passes(pass);
      for (int m = microbatch; m < microbatch + static_cast<int>(slots); ++m) {
        whole.add_row_widths(part.row_widths(m));
        for (auto i = static_cast<int>(part.microbatch_offsets(m));
             i < static_cast<int>(part.microbatch_offsets(m + 1)); ++i) {
          whole.add_sequence_index(part.sequence_index(i));
          whole.add_sequence_lengths(part.sequence_lengths(i));
          if (part.shared_tokens_size() > 0) whole.add_shared_tokens(part.shared_tokens(i));
        }
        whole.add_microbatch_offsets(static_cast<uint32_t>(whole.sequence_index_size()));
      }
    }
    microbatch += static_cast<int>(slots);
  }
  return whole;
}

TEST(SliceTest, TheSlicesOfAllRanksPutTogetherAreThePlan) {
  uint64_t planned = 0;
  for (const uint64_t seed : Seeds(600)) {
    const GeneratedRequest request = GenerateRequest(seed);
    SCOPED_TRACE(request.Describe());
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    ++planned;
    v1::PlanBatchResponse whole;
    FillResponse(*plan, absl::Milliseconds(3), &whole);
    v1::LoadRanks* items = whole.mutable_passes(0)->add_item_ranks();
    items->set_load("patches");
    for (uint32_t i = 0; i < seed % 5; ++i) items->add_ranks(i);
    const uint32_t ranks = request.options.topology.data_parallel;
    std::vector<v1::PlanBatchResponse> slices(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      SliceForRank(whole, ranks, rank, &slices[rank]);
      for (const v1::PassPlan& pass : slices[rank].passes()) {
        ASSERT_EQ(pass.microbatch_offsets(0), 0);
        ASSERT_EQ(pass.microbatch_offsets_size(), pass.row_widths_size() + 1);
        ASSERT_TRUE(
            std::is_sorted(pass.microbatch_offsets().begin(), pass.microbatch_offsets().end()));
        ASSERT_EQ(pass.microbatch_offsets(pass.row_widths_size()), pass.sequence_index_size());
      }
      // What is not sliced is the whole plan's.
      v1::PlanBatchResponse rest = slices[rank];
      v1::PlanBatchResponse expected = whole;
      rest.clear_passes();
      expected.clear_passes();
      ASSERT_EQ(rest.SerializeAsString(), expected.SerializeAsString());
    }
    ASSERT_EQ(slices[0].passes_size(), whole.passes_size());
    for (int pass = 0; pass < whole.passes_size(); ++pass) {
      ASSERT_EQ(Join(slices, pass).SerializeAsString(), whole.passes(pass).SerializeAsString());
    }
  }
  EXPECT_GT(planned, 100);
}

TEST(SliceTest, EachSliceHasItsPartOfWhatSequencesShare) {
  for (const uint64_t seed : Seeds(100)) {
    RandomStream random(seed);
    std::vector<uint32_t> lengths, group_ids, prefixes;
    for (uint32_t group = 0; group < random.Between(1, 8); ++group) {
      const auto prompt = static_cast<uint32_t>(random.Between(0, 500));
      for (uint64_t member = random.Between(1, 6); member > 0; --member) {
        lengths.push_back(prompt + static_cast<uint32_t>(random.Between(1, 400)));
        group_ids.push_back(group);
        prefixes.push_back(prompt);
      }
    }
    PlanOptions options;
    options.topology.data_parallel = static_cast<uint32_t>(random.Between(1, 4));
    options.allow_empty_microbatches = true;
    options.passes.resize(2);
    options.passes[0].max_tokens_per_microbatch = 2048;
    options.passes[1].name = "reference";
    options.passes[1].max_tokens_per_microbatch = 1024;
    options.passes[1].ignore_shared_prefixes = random.Chance(50);
    const absl::StatusOr<Plan> plan = MakePlan(
        {.lengths = lengths, .group_ids = group_ids, .shared_prefixes = prefixes}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    v1::PlanBatchResponse whole;
    FillResponse(*plan, absl::ZeroDuration(), &whole);
    std::vector<v1::PlanBatchResponse> slices(options.topology.data_parallel);
    for (uint32_t rank = 0; rank < slices.size(); ++rank) {
      SliceForRank(whole, options.topology.data_parallel, rank, &slices[rank]);
    }
    for (int pass = 0; pass < whole.passes_size(); ++pass) {
      ASSERT_EQ(Join(slices, pass).SerializeAsString(), whole.passes(pass).SerializeAsString());
    }
  }
}

TEST(SliceTest, ARankOfAPoolHasTheGroupsThatItIsIn) {
  uint64_t planned = 0;
  for (const uint64_t seed : Seeds(100)) {
    const GeneratedRequest request = GenerateDynamicRequest(seed);
    SCOPED_TRACE(request.Describe());
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    ++planned;
    v1::PlanBatchResponse whole;
    FillResponse(*plan, absl::Milliseconds(3), &whole);
    const Topology& topology = request.options.topology;
    for (uint32_t rank = 0; rank < topology.data_parallel * topology.context_parallel; ++rank) {
      v1::PlanBatchResponse slice;
      SliceForRank(whole, topology.data_parallel, rank, &slice);
      for (int p = 0; p < whole.passes_size(); ++p) {
        const v1::PassPlan& pass = whole.passes(p);
        v1::PassPlan expected = pass;
        expected.clear_sequence_index();
        expected.clear_sequence_lengths();
        expected.clear_row_widths();
        expected.clear_context_sizes();
        expected.clear_microbatch_offsets();
        expected.add_microbatch_offsets(0);
        int m = 0;
        for (const uint32_t slots : pass.microbatches_per_rank()) {
          for (uint32_t slot = 0; slot < slots; ++slot) {
            for (uint32_t first = 0; first < topology.data_parallel * topology.context_parallel;
                 first += pass.context_sizes(m++)) {
              if (rank < first || rank >= first + pass.context_sizes(m)) continue;
              for (auto i = static_cast<int>(pass.microbatch_offsets(m));
                   i < static_cast<int>(pass.microbatch_offsets(m + 1)); ++i) {
                expected.add_sequence_index(pass.sequence_index(i));
                expected.add_sequence_lengths(pass.sequence_lengths(i));
              }
              expected.add_microbatch_offsets(
                  static_cast<uint32_t>(expected.sequence_index_size()));
              expected.add_row_widths(pass.row_widths(m));
              expected.add_context_sizes(pass.context_sizes(m));
            }
          }
        }
        ASSERT_EQ(slice.passes(p).SerializeAsString(), expected.SerializeAsString());
      }
    }
  }
  EXPECT_GT(planned, testing::Cases(100) / 5);
}

TEST(SliceTest, TheOnlyRanksSliceIsThePlanAndZeroRanksAreOne) {
  GeneratedRequest request = GenerateRequest(1);
  uint64_t seed = 1;
  while (request.options.topology.data_parallel != 1 ||
         !MakePlan(request.manifest(), request.options).ok()) {
    request = GenerateRequest(++seed);
  }
  v1::PlanBatchResponse whole;
  FillResponse(*MakePlan(request.manifest(), request.options), absl::Milliseconds(3), &whole);
  for (uint32_t ranks : {0, 1}) {
    v1::PlanBatchResponse slice;
    SliceForRank(whole, ranks, 0, &slice);
    EXPECT_EQ(slice.SerializeAsString(), whole.SerializeAsString());
  }
}

}  // namespace
}  // namespace batchplan::testing
