// The micro-batches of a rank, and plans that no planner would make.

#include "batchplan/kernels/microbatches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

namespace batchplan::kernels {
namespace {

using ::testing::ElementsAre;

// A plan in arrays of exactly its size, on the heap, so that a sanitizer sees reads beside them.
struct PlanArrays {
  std::vector<uint32_t> sequence_index = {};
  std::vector<uint32_t> sequence_lengths = {};
  std::vector<uint32_t> microbatch_offsets = {};
  std::vector<uint32_t> row_widths = {};
  std::vector<uint32_t> microbatches_per_rank = {};
  // Empty: all groups have one size.
  std::vector<uint32_t> context_sizes = {};
  uint32_t data_parallel = 1;
  // Empty: no prefixes are shared.
  std::vector<uint32_t> shared_tokens = {};

  batchplan_plan View() const {
    return {.sequence_index = sequence_index.data(),
            .sequence_lengths = sequence_lengths.data(),
            .microbatch_offsets = microbatch_offsets.data(),
            .row_widths = row_widths.data(),
            .microbatches_per_rank = microbatches_per_rank.data(),
            .context_sizes = context_sizes.empty() ? nullptr : context_sizes.data(),
            .num_sequences = static_cast<uint32_t>(sequence_index.size()),
            .num_microbatches = static_cast<uint32_t>(row_widths.size()),
            .num_mini_batches = static_cast<uint32_t>(microbatches_per_rank.size()),
            .data_parallel = data_parallel,
            .shared_tokens = shared_tokens.empty() ? nullptr : shared_tokens.data()};
  }
};

// Two mini-batches on two ranks, of 2 slots and of 1. The fourth micro-batch is empty.
PlanArrays SixMicrobatches() {
  return {.sequence_index = {4, 0, 2, 5, 1, 3, 7, 6},
          .sequence_lengths = {9, 5, 3, 8, 2, 6, 1, 4},
          .microbatch_offsets = {0, 2, 3, 5, 5, 6, 8},
          .row_widths = {14, 3, 10, 0, 6, 5},
          .microbatches_per_rank = {2, 1},
          .data_parallel = 2};
}

// Two mini-batches on a pool of four ranks: slots with groups of 2, 1 and 1 and of 4, then one of 2
// and 2. The third micro-batch is empty.
PlanArrays SixGroups() {
  return {.sequence_index = {4, 0, 2, 5, 1, 3, 7, 6},
          .sequence_lengths = {9, 5, 3, 8, 2, 6, 1, 4},
          .microbatch_offsets = {0, 2, 3, 3, 5, 6, 8},
          .row_widths = {16, 3, 0, 16, 8, 8},
          .microbatches_per_rank = {2, 1},
          .context_sizes = {2, 1, 1, 4, 2, 2},
          .data_parallel = 4};
}

batchplan_status StatusOf(const batchplan_plan& plan, uint32_t rank = 0) {
  batchplan_microbatch_iterator iterator = {};
  return batchplan_rank_microbatches(&plan, rank, &iterator);
}

std::vector<batchplan_microbatch> MicrobatchesOf(const batchplan_plan& plan, uint32_t rank) {
  std::vector<batchplan_microbatch> microbatches;
  batchplan_microbatch_iterator iterator = {};
  EXPECT_EQ(batchplan_rank_microbatches(&plan, rank, &iterator), BATCHPLAN_OK);
  batchplan_microbatch microbatch = {};
  while (batchplan_next_microbatch(&iterator, &microbatch) == 1) microbatches.push_back(microbatch);
  EXPECT_EQ(batchplan_next_microbatch(&iterator, &microbatch), 0) << "the end is the end";
  return microbatches;
}

std::vector<uint32_t> IndexOf(const batchplan_microbatch& microbatch) {
  return {microbatch.sequence_index, microbatch.sequence_index + microbatch.num_sequences};
}

std::vector<uint32_t> LengthsOf(const batchplan_microbatch& microbatch) {
  return {microbatch.sequence_lengths, microbatch.sequence_lengths + microbatch.num_sequences};
}

TEST(MicrobatchesTest, RankGetsItsMicrobatchesInTheOrderTheyRun) {
  const PlanArrays plan = SixMicrobatches();
  const auto of_rank = MicrobatchesOf(plan.View(), 0);
  ASSERT_EQ(of_rank.size(), 3U);

  EXPECT_EQ(of_rank[0].mini_batch, 0U);
  EXPECT_EQ(of_rank[0].slot, 0U);
  EXPECT_EQ(of_rank[0].index, 0U);
  EXPECT_EQ(of_rank[0].first_sequence, 0U);
  EXPECT_EQ(of_rank[0].row_width, 14U);
  EXPECT_THAT(IndexOf(of_rank[0]), ElementsAre(4, 0));
  EXPECT_THAT(LengthsOf(of_rank[0]), ElementsAre(9, 5));

  EXPECT_EQ(of_rank[1].mini_batch, 0U);
  EXPECT_EQ(of_rank[1].slot, 1U);
  EXPECT_THAT(IndexOf(of_rank[1]), ElementsAre(2));

  EXPECT_EQ(of_rank[2].mini_batch, 1U);
  EXPECT_EQ(of_rank[2].slot, 0U);
  EXPECT_EQ(of_rank[2].index, 4U);
  EXPECT_EQ(of_rank[2].first_sequence, 5U);
  EXPECT_THAT(IndexOf(of_rank[2]), ElementsAre(3));
}

TEST(MicrobatchesTest, SharedTokensAreThoseOfTheMicrobatch) {
  PlanArrays plan = SixMicrobatches();
  for (const batchplan_microbatch& microbatch : MicrobatchesOf(plan.View(), 1)) {
    EXPECT_EQ(microbatch.shared_tokens, nullptr);
  }
  plan.shared_tokens = {0, 4, 0, 0, 1, 0, 0, 1};
  const auto of_rank = MicrobatchesOf(plan.View(), 1);
  ASSERT_EQ(of_rank.size(), 3U);
  for (const batchplan_microbatch& microbatch : of_rank) {
    EXPECT_EQ(microbatch.shared_tokens, plan.shared_tokens.data() + microbatch.first_sequence);
  }
  EXPECT_EQ(of_rank[2].shared_tokens[1], 1U);
}

TEST(MicrobatchesTest, EmptyMicrobatchIsOneOfTheRanks) {
  const PlanArrays plan = SixMicrobatches();
  const auto of_rank = MicrobatchesOf(plan.View(), 1);
  ASSERT_EQ(of_rank.size(), 3U);
  EXPECT_EQ(of_rank[1].num_sequences, 0U);
  EXPECT_EQ(of_rank[1].row_width, 0U);
  EXPECT_EQ(of_rank[1].first_sequence, 5U);
  EXPECT_THAT(IndexOf(of_rank[2]), ElementsAre(7, 6));
}

TEST(MicrobatchesTest, RankFindsItsGroupAndItsPlaceInItInEverySlot) {
  const PlanArrays plan = SixGroups();
  struct Place {
    uint32_t index, size, rank;
    bool operator==(const Place&) const = default;
  };
  std::vector<std::vector<Place>> places;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    std::vector<Place>& own = places.emplace_back();
    for (const batchplan_microbatch& microbatch : MicrobatchesOf(plan.View(), rank)) {
      own.push_back(
          {microbatch.index, microbatch.context_parallel, microbatch.context_parallel_rank});
      EXPECT_EQ(microbatch.context_parallel_rank, rank % microbatch.context_parallel);
    }
  }
  EXPECT_THAT(places, ElementsAre(ElementsAre(Place{0, 2, 0}, Place{3, 4, 0}, Place{4, 2, 0}),
                                  ElementsAre(Place{0, 2, 1}, Place{3, 4, 1}, Place{4, 2, 1}),
                                  ElementsAre(Place{1, 1, 0}, Place{3, 4, 2}, Place{5, 2, 0}),
                                  ElementsAre(Place{2, 1, 0}, Place{3, 4, 3}, Place{5, 2, 1})));
  const auto of_rank = MicrobatchesOf(plan.View(), 2);
  EXPECT_THAT(IndexOf(of_rank[0]), ElementsAre(2));
  EXPECT_THAT(IndexOf(of_rank[1]), ElementsAre(5, 1));
  EXPECT_EQ(of_rank[1].slot, 1U);
  EXPECT_EQ(of_rank[2].mini_batch, 1U);
  EXPECT_EQ(of_rank[2].row_width, 8U);
  EXPECT_THAT(IndexOf(of_rank[2]), ElementsAre(7, 6));
  EXPECT_EQ(MicrobatchesOf(plan.View(), 3)[0].num_sequences, 0U);
}

TEST(MicrobatchesTest, WithoutSizesOfGroupsNoneAreSaid) {
  for (const batchplan_microbatch& microbatch : MicrobatchesOf(SixMicrobatches().View(), 1)) {
    EXPECT_EQ(microbatch.context_parallel, 0U);
    EXPECT_EQ(microbatch.context_parallel_rank, 0U);
  }
}

TEST(MicrobatchesTest, GroupsThatDoNotDivideThePoolAreRefused) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{// Too many or too few ranks in a slot.
                                          {2, 1, 2, 4, 2, 2},
                                          {2, 1, 1, 4, 2, 1},
                                          {2, 1, 1, 4, 2, 3},
                                          // A group does not begin at a multiple of its size.
                                          {1, 2, 1, 4, 2, 2},
                                          {2, 1, 1, 4, 1, 3},
                                          // Four slots, or two.
                                          {2, 2, 4, 4, 2, 2},
                                          {1, 1, 1, 1, 2, 2},
                                          {0, 2, 2, 4, 2, 2},
                                          {2, 1, 1, 4, 2, UINT32_MAX}}) {
    PlanArrays plan = SixGroups();
    plan.context_sizes = sizes;
    EXPECT_EQ(StatusOf(plan.View()), BATCHPLAN_ERROR_PLAN) << testing::PrintToString(sizes);
  }
  PlanArrays plan = SixGroups();
  plan.microbatches_per_rank = {2};
  EXPECT_EQ(StatusOf(plan.View()), BATCHPLAN_ERROR_PLAN);
  plan = SixGroups();
  EXPECT_EQ(StatusOf(plan.View(), 4), BATCHPLAN_ERROR_DATA_PARALLEL_RANK);
}

TEST(MicrobatchesTest, MiniBatchWithoutMicrobatchesIsPassedOver) {
  PlanArrays plan = SixMicrobatches();
  plan.microbatches_per_rank = {0, 2, 0, 0, 1, 0};
  const auto of_rank = MicrobatchesOf(plan.View(), 1);
  ASSERT_EQ(of_rank.size(), 3U);
  EXPECT_EQ(of_rank[0].mini_batch, 1U);
  EXPECT_EQ(of_rank[2].mini_batch, 4U);
  EXPECT_THAT(IndexOf(of_rank[2]), ElementsAre(7, 6));
}

TEST(MicrobatchesTest, PlanOfNothingHasNoMicrobatches) {
  const PlanArrays nothing;
  EXPECT_TRUE(MicrobatchesOf(nothing.View(), 0).empty());
  const PlanArrays one_offset = {.microbatch_offsets = {0}, .microbatches_per_rank = {0, 0}};
  EXPECT_TRUE(MicrobatchesOf(one_offset.View(), 0).empty());
  const PlanArrays only_empty = {
      .microbatch_offsets = {0, 0, 0}, .row_widths = {0, 0}, .microbatches_per_rank = {2}};
  EXPECT_EQ(MicrobatchesOf(only_empty.View(), 0).size(), 2U);
}

TEST(MicrobatchesTest, RankThatIsNotThereIsRefused) {
  PlanArrays plan = SixMicrobatches();
  EXPECT_EQ(StatusOf(plan.View(), 2), BATCHPLAN_ERROR_DATA_PARALLEL_RANK);
  EXPECT_EQ(StatusOf(plan.View(), UINT32_MAX), BATCHPLAN_ERROR_DATA_PARALLEL_RANK);
  plan.data_parallel = 0;
  EXPECT_EQ(StatusOf(plan.View(), 0), BATCHPLAN_ERROR_DATA_PARALLEL_RANK);
}

TEST(MicrobatchesTest, CountsThatDoNotAddUpAreRefused) {
  for (const std::vector<uint32_t>& counts :
       std::vector<std::vector<uint32_t>>{{},
                                          {2},
                                          {3, 1},
                                          {1, 1},
                                          {UINT32_MAX},
                                          {UINT32_MAX, 4},
                                          // In 32 bits, their sum is 3, or 2 times it is 6.
                                          {UINT32_MAX, UINT32_MAX, 5},
                                          {0x80000003U}}) {
    PlanArrays plan = SixMicrobatches();
    plan.microbatches_per_rank = counts;
    EXPECT_EQ(StatusOf(plan.View()), BATCHPLAN_ERROR_PLAN) << testing::PrintToString(counts);
  }
  PlanArrays plan = SixMicrobatches();
  plan.microbatches_per_rank = {2};
  // 2 times as many ranks is 6 in 32 bits.
  plan.data_parallel = 0x80000003U;
  EXPECT_EQ(StatusOf(plan.View()), BATCHPLAN_ERROR_PLAN);
}

TEST(MicrobatchesTest, OffsetsThatDoNotCoverTheSequencesAreRefused) {
  for (const std::vector<uint32_t>& offsets :
       std::vector<std::vector<uint32_t>>{{1, 2, 3, 5, 5, 6, 8},
                                          {0, 2, 3, 5, 5, 6, 7},
                                          {0, 2, 3, 5, 5, 6, 9},
                                          {0, 3, 2, 5, 5, 6, 8},
                                          {0, 2, 3, UINT32_MAX, 5, 6, 8},
                                          {0, 2, 3, 5, 5, 9, 8}}) {
    PlanArrays plan = SixMicrobatches();
    plan.microbatch_offsets = offsets;
    EXPECT_EQ(StatusOf(plan.View()), BATCHPLAN_ERROR_PLAN) << testing::PrintToString(offsets);
  }
  const PlanArrays sequences_of_no_microbatch = {
      .sequence_index = {0}, .sequence_lengths = {1}, .microbatch_offsets = {0}};
  EXPECT_EQ(StatusOf(sequences_of_no_microbatch.View()), BATCHPLAN_ERROR_PLAN);
  batchplan_plan no_offsets = sequences_of_no_microbatch.View();
  no_offsets.microbatch_offsets = nullptr;
  EXPECT_EQ(StatusOf(no_offsets), BATCHPLAN_ERROR_PLAN);
}

TEST(MicrobatchesTest, MissingArrayIsANullPointer) {
  const PlanArrays arrays = SixMicrobatches();
  const batchplan_plan plan = arrays.View();
  batchplan_microbatch_iterator iterator = {};
  EXPECT_EQ(batchplan_rank_microbatches(nullptr, 0, &iterator), BATCHPLAN_ERROR_NULL_POINTER);
  EXPECT_EQ(batchplan_rank_microbatches(&plan, 0, nullptr), BATCHPLAN_ERROR_NULL_POINTER);
  for (const auto array : {&batchplan_plan::sequence_index, &batchplan_plan::sequence_lengths,
                           &batchplan_plan::microbatch_offsets, &batchplan_plan::row_widths,
                           &batchplan_plan::microbatches_per_rank}) {
    batchplan_plan without = plan;
    without.*array = nullptr;
    EXPECT_EQ(StatusOf(without), BATCHPLAN_ERROR_NULL_POINTER);
  }
}

TEST(MicrobatchesTest, IteratorThatWasNeverSetHasNoMicrobatches) {
  const PlanArrays arrays = SixMicrobatches();
  const batchplan_plan plan = arrays.View();
  batchplan_microbatch_iterator iterator = {};
  batchplan_microbatch microbatch = {};
  EXPECT_EQ(batchplan_next_microbatch(&iterator, &microbatch), 0);
  EXPECT_EQ(batchplan_next_microbatch(nullptr, &microbatch), 0);
  ASSERT_EQ(batchplan_rank_microbatches(&plan, 0, &iterator), BATCHPLAN_OK);
  EXPECT_EQ(batchplan_next_microbatch(&iterator, nullptr), 0);
}

// Small numbers and the ends of the range, so that many plans are nearly right.
uint32_t HostileNumber(std::mt19937& random) {
  constexpr uint32_t kNumbers[] = {0, 0, 1, 1, 2, 2, 3, 4, 6, 0x80000000U, UINT32_MAX};
  return kNumbers[random() % std::size(kNumbers)];
}

std::vector<uint32_t> HostileNumbers(std::mt19937& random, size_t size) {
  std::vector<uint32_t> numbers(size);
  for (uint32_t& number : numbers) number = HostileNumber(random);
  return numbers;
}

TEST(MicrobatchesTest, WhateverTheArraysHoldEveryMicrobatchLiesWithinThem) {
  std::mt19937 random(7);
  int accepted = 0;
  int accepted_groups = 0;
  for (int round = 0; round < 200'000; ++round) {
    const size_t num_sequences = random() % 4;
    const size_t num_microbatches = random() % 5;
    PlanArrays plan = {.sequence_index = HostileNumbers(random, num_sequences),
                       .sequence_lengths = HostileNumbers(random, num_sequences),
                       .microbatch_offsets = HostileNumbers(random, num_microbatches + 1),
                       .row_widths = HostileNumbers(random, num_microbatches),
                       .microbatches_per_rank = HostileNumbers(random, random() % 4),
                       .data_parallel = HostileNumber(random)};
    const bool grouped = random() % 2 == 0;
    if (grouped) {
      plan.context_sizes = HostileNumbers(random, num_microbatches);
      for (uint32_t& size : plan.context_sizes) {
        if (random() % 4 > 0) size = 1U << random() % 2;
      }
      plan.data_parallel = 1 + random() % 4;
      plan.microbatches_per_rank = {static_cast<uint32_t>(random() % 4)};
    }
    if (random() % 2 == 0) {
      std::sort(plan.microbatch_offsets.begin(), plan.microbatch_offsets.end());
      plan.microbatch_offsets.front() = 0;
      plan.microbatch_offsets.back() = static_cast<uint32_t>(num_sequences);
    }
    const batchplan_plan view = plan.View();
    const uint32_t rank = random() % 3;
    if (StatusOf(view, rank) != BATCHPLAN_OK) continue;
    ++accepted;
    if (grouped && num_microbatches > 1) ++accepted_groups;
    for (const batchplan_microbatch& microbatch : MicrobatchesOf(view, rank)) {
      ASSERT_LT(microbatch.index, num_microbatches);
      ASSERT_LE(uint64_t{microbatch.first_sequence} + microbatch.num_sequences, num_sequences);
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(accepted_groups, 100);
}

TEST(MicrobatchesTest, RanksShareEveryPlanWithoutGapOrOverlap) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    PlanArrays plan = {.data_parallel = static_cast<uint32_t>(1 + random() % 5)};
    plan.microbatches_per_rank = std::vector<uint32_t>(random() % 5);
    plan.microbatch_offsets = {0};
    for (uint32_t& count : plan.microbatches_per_rank) {
      count = random() % 4;
      for (uint32_t i = 0; i < count * plan.data_parallel; ++i) {
        for (uint32_t n = random() % 4; n > 0; --n) {
          plan.sequence_index.push_back(static_cast<uint32_t>(plan.sequence_index.size()));
          plan.sequence_lengths.push_back(1 + random() % 100);
        }
        plan.microbatch_offsets.push_back(static_cast<uint32_t>(plan.sequence_index.size()));
        plan.row_widths.push_back(random() % 100);
      }
    }
    std::vector<int> seen(plan.row_widths.size());
    for (uint32_t rank = 0; rank < plan.data_parallel; ++rank) {
      for (const batchplan_microbatch& microbatch : MicrobatchesOf(plan.View(), rank)) {
        ++seen[microbatch.index];
        EXPECT_EQ(microbatch.first_sequence, plan.microbatch_offsets[microbatch.index]);
        EXPECT_EQ(microbatch.row_width, plan.row_widths[microbatch.index]);
      }
    }
    EXPECT_THAT(seen, testing::Each(1));
  }
}

}  // namespace
}  // namespace batchplan::kernels
