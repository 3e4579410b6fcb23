#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "server/rendezvous/joined_plan.h"
#include "tests/support/generated_request.h"
#include "tests/support/generators.h"
#include "tests/support/wire_request.h"

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

v1::PlanBatchResponse SliceOf(const v1::PlanBatchResponse& plan, uint32_t ranks, uint32_t rank) {
  v1::JoinBatchResponse whole;
  *whole.mutable_plan() = plan;
  v1::JoinBatchResponse slice;
  SliceForRank(whole, {.data_parallel = ranks, .rank = rank}, &slice);
  return slice.plan();
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
      slices[rank] = SliceOf(whole, ranks, rank);
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
      slices[rank] = SliceOf(whole, options.topology.data_parallel, rank);
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
      const v1::PlanBatchResponse slice = SliceOf(whole, topology.data_parallel, rank);
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
    EXPECT_EQ(SliceOf(whole, ranks, 0).SerializeAsString(), whole.SerializeAsString());
  }
}

// A plan that workers joined, with entries of whatever sequences.
v1::JoinBatchResponse JoinedByWorkers(const Plan& plan, uint32_t sequences, RandomStream& random) {
  v1::JoinBatchResponse whole;
  FillResponse(plan, absl::Milliseconds(3), whole.mutable_plan());
  for (v1::PassPlan& pass : *whole.mutable_plan()->mutable_passes()) pass.clear_item_ranks();
  std::vector<uint32_t> offsets = {0, sequences};
  for (uint64_t worker = random.Between(1, 5); worker > 1; --worker) {
    offsets.push_back(static_cast<uint32_t>(random.Between(0, sequences)));
  }
  std::sort(offsets.begin(), offsets.end());
  whole.mutable_worker_offsets()->Add(offsets.begin(), offsets.end());
  for (const char* load : {"patches", "frames"}) {
    v1::ItemSequences* items = whole.add_item_sequences();
    items->set_load(load);
    for (uint32_t s = 0; s < sequences; ++s) {
      for (uint64_t item = random.Between(0, 2); item > 0; --item) items->add_sequences(s);
    }
    for (v1::PassPlan& pass : *whole.mutable_plan()->mutable_passes()) {
      v1::LoadRanks* ranks = pass.add_item_ranks();
      ranks->set_load(load);
      for (int i = 0; i < items->sequences_size(); ++i) {
        ranks->add_ranks(static_cast<uint32_t>(random.Between(0, 9)));
      }
    }
  }
  whole.mutable_plan()->clear_excluded();
  whole.mutable_plan()->clear_deferred();
  for (uint32_t s = 0; s < sequences; ++s) {
    if (random.Chance(30)) whole.mutable_plan()->add_excluded()->set_index(s);
    if (random.Chance(30)) whole.mutable_plan()->add_deferred(s);
  }
  return whole;
}

// `all` with the entries of these sequences alone, and without worker_offsets.
v1::JoinBatchResponse OfSequences(const v1::JoinBatchResponse& all, const std::set<uint32_t>& own) {
  v1::JoinBatchResponse kept = all;
  kept.clear_worker_offsets();
  kept.mutable_plan()->clear_excluded();
  kept.mutable_plan()->clear_deferred();
  for (const v1::ExcludedSequence& one : all.plan().excluded()) {
    if (own.contains(one.index())) *kept.mutable_plan()->add_excluded() = one;
  }
  for (const uint32_t s : all.plan().deferred()) {
    if (own.contains(s)) kept.mutable_plan()->add_deferred(s);
  }
  for (int load = 0; load < all.item_sequences_size(); ++load) {
    const v1::ItemSequences& items = all.item_sequences(load);
    kept.mutable_item_sequences(load)->clear_sequences();
    for (v1::PassPlan& pass : *kept.mutable_plan()->mutable_passes()) {
      pass.mutable_item_ranks(load)->clear_ranks();
    }
    for (int i = 0; i < items.sequences_size(); ++i) {
      if (!own.contains(items.sequences(i))) continue;
      kept.mutable_item_sequences(load)->add_sequences(items.sequences(i));
      for (int pass = 0; pass < all.plan().passes_size(); ++pass) {
        kept.mutable_plan()->mutable_passes(pass)->mutable_item_ranks(load)->add_ranks(
            all.plan().passes(pass).item_ranks(load).ranks(i));
      }
    }
  }
  return kept;
}

TEST(SliceTest, AWorkersOwnPartHasTheEntriesOfItsSequencesAndOfItsSlice) {
  for (const uint64_t seed : Seeds(200)) {
    RandomStream random(seed);
    GeneratedRequest request = GenerateRequest(seed);
    if (seed % 3 == 0) AddSelection(seed, &request);
    if (seed % 4 == 0) AddMultiples(seed, &request);
    const absl::StatusOr<Plan> plan = MakePlan(request.manifest(), request.options);
    if (!plan.ok()) continue;
    v1::JoinBatchResponse whole =
        JoinedByWorkers(*plan, static_cast<uint32_t>(request.lengths.size()), random);
    if (random.Chance(50)) *whole.mutable_request() = WireRequest(request);
    const uint32_t ranks = request.options.topology.data_parallel;
    for (uint32_t worker = 0; worker + 1 < static_cast<uint32_t>(whole.worker_offsets_size());
         ++worker) {
      AskedSlice asked = {.data_parallel = ranks, .rank = worker % ranks};
      v1::JoinBatchResponse all;
      SliceForRank(whole, asked, &all);
      const uint32_t begin = whole.worker_offsets(static_cast<int>(worker));
      const uint32_t end = whole.worker_offsets(static_cast<int>(worker) + 1);
      std::set<uint32_t> own;
      for (uint32_t s = begin; s < end; ++s) own.insert(s);
      for (const v1::PassPlan& pass : all.plan().passes()) {
        own.insert(pass.sequence_index().begin(), pass.sequence_index().end());
      }
      v1::JoinBatchResponse expected = OfSequences(all, own);
      expected.add_worker_offsets(begin);
      expected.add_worker_offsets(end);
      asked.own_part_of = worker;
      v1::JoinBatchResponse slice;
      SliceForRank(whole, asked, &slice);
      ASSERT_EQ(slice.SerializeAsString(), expected.SerializeAsString());
    }
  }
}

}  // namespace
}  // namespace batchplan::testing
