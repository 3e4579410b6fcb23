// The C++ layer over the C API, as a C++ program uses it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "batchplan/kernels.hpp"

namespace batchplan::kernels {
namespace {

using ::testing::ElementsAre;

constexpr std::array<uint32_t, 5> kIndex = {4, 2, 0, 1, 3};
constexpr std::array<uint32_t, 5> kLengths = {3, 1, 2, 2, 1};
constexpr std::array<uint32_t, 5> kOffsets = {0, 2, 3, 4, 5};
constexpr std::array<uint32_t, 4> kRowWidths = {4, 2, 2, 1};
constexpr std::array<uint32_t, 1> kPerRank = {2};

// Two ranks with two micro-batches each.
constexpr batchplan_plan kPlan = {.sequence_index = kIndex.data(),
                                  .sequence_lengths = kLengths.data(),
                                  .microbatch_offsets = kOffsets.data(),
                                  .row_widths = kRowWidths.data(),
                                  .microbatches_per_rank = kPerRank.data(),
                                  .context_sizes = nullptr,
                                  .num_sequences = 5,
                                  .num_microbatches = 4,
                                  .num_mini_batches = 1,
                                  .data_parallel = 2};

TEST(CppHeaderTest, RangeVisitsTheMicrobatchesOfARank) {
  std::vector<uint32_t> first_sequences;
  for (const batchplan_microbatch& microbatch : Microbatches(kPlan, 1)) {
    first_sequences.push_back(microbatch.sequence_index[0]);
  }
  EXPECT_THAT(first_sequences, ElementsAre(1, 3));
  EXPECT_EQ(Microbatches(kPlan, 1).status(), BATCHPLAN_OK);
}

TEST(CppHeaderTest, RankThatDoesNotExistHasNoMicrobatchesAndSaysWhy) {
  const Microbatches none(kPlan, 2);
  EXPECT_TRUE(none.begin() == none.end());
  EXPECT_EQ(none.status(), BATCHPLAN_ERROR_DATA_PARALLEL_RANK);
}

TEST(CppHeaderTest, TypedFieldsArePackedAndUnpacked) {
  const batchplan_microbatch microbatch = *Microbatches(kPlan, 0).begin();
  std::array<int32_t, 3> cu_seqlens = {};
  std::array<int32_t, 3> cu_seqlens_padded = {};
  batchplan_row row = {};
  row.cu_seqlens = cu_seqlens.data();
  row.cu_seqlens_padded = cu_seqlens_padded.data();
  row.num_sequences = microbatch.num_sequences;
  row.options.length_multiple = 1;
  row.options.context_parallel = 1;
  row.options.row_width = microbatch.row_width;
  batchplan_packed_layout layout = {};
  layout.cu_seqlens = cu_seqlens.data();
  layout.cu_seqlens_padded = cu_seqlens_padded.data();
  ASSERT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, microbatch.sequence_lengths, nullptr,
                                     row.num_sequences, &row.options, &layout, nullptr, nullptr),
            BATCHPLAN_OK);

  batchplan_sequences sequences = {};
  sequences.sequence_index = microbatch.sequence_index;
  sequences.num_rows = 5;
  // Rows 4 and 2 of five, of three tokens.
  const std::array<int64_t, 15> input_ids = {0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 2, 3};
  const std::array<float, 5> advantages = {0, 0, -1, 0, 0.5F};
  std::array<int64_t, 4> packed = {};
  std::array<int64_t, 4> labels = {};
  std::array<float, 4> packed_advantages = {};
  std::array<int32_t, 4> position_ids = {};
  std::array<int64_t, 4> sequence_ids = {};
  const std::array fields = {Tokens(input_ids.data(), packed.data(), 3),
                             NextTokens(input_ids.data(), labels.data(), 3, -100),
                             PerSequence(advantages.data(), packed_advantages.data()),
                             PositionIds(position_ids.data()), SequenceIds(sequence_ids.data())};
  ASSERT_EQ(Pack(BATCHPLAN_BACKEND_HOST, row, sequences, fields, nullptr), BATCHPLAN_OK);
  EXPECT_THAT(packed, ElementsAre(1, 2, 3, 7));
  EXPECT_THAT(labels, ElementsAre(2, 3, -100, -100));
  EXPECT_THAT(packed_advantages, ElementsAre(0.5F, 0.5F, 0.5F, -1));
  EXPECT_THAT(position_ids, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(sequence_ids, ElementsAre(0, 0, 0, 1));

  std::array<int64_t, 15> restored = {};
  const std::array outputs = {Tokens(packed.data(), restored.data(), 3)};
  ASSERT_EQ(Unpack(BATCHPLAN_BACKEND_HOST, row, sequences, outputs, nullptr), BATCHPLAN_OK);
  EXPECT_EQ(restored, input_ids);
}

TEST(CppHeaderTest, RowThatSharesAPrefixIsUnpackedWithWhatItsGradientIs) {
  const std::array<uint32_t, 2> lengths = {3, 4};
  const std::array<uint32_t, 2> shared = {0, 2};
  std::array<int32_t, 3> cu_seqlens = {};
  std::array<int32_t, 3> cu_new = {};
  std::array<int32_t, 2> least_shared = {};
  batchplan_row row = {};
  row.cu_seqlens = cu_seqlens.data();
  row.cu_seqlens_padded = cu_new.data();
  row.least_shared = least_shared.data();
  row.num_sequences = 2;
  row.options.length_multiple = 1;
  row.options.context_parallel = 1;
  row.options.row_width = 5;
  batchplan_packed_layout layout = {};
  layout.cu_seqlens = cu_seqlens.data();
  layout.cu_seqlens_padded = cu_new.data();
  layout.least_shared = least_shared.data();
  ASSERT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths.data(), shared.data(), 2,
                                     &row.options, &layout, nullptr, nullptr),
            BATCHPLAN_OK);
  batchplan_sequences sequences = {};
  sequences.num_rows = 2;
  const std::array<float, 5> packed = {1, 2, 3, 4, 5};
  std::array<float, 8> unpacked = {};
  std::array<int64_t, 8> before = {};
  const std::array fields = {Tokens(packed.data(), unpacked.data(), 4, -1),
                             Predecessors(before.data(), 4)};
  EXPECT_EQ(Unpack(BATCHPLAN_BACKEND_HOST, row, sequences, fields, nullptr), BATCHPLAN_OK);
  EXPECT_THAT(unpacked, ElementsAre(1, 2, 3, -1, 1, 2, 4, 5));
  EXPECT_THAT(before, ElementsAre(-1, 0, 1, -1, -1, 0, 1, 3));

  std::array<float, 5> sums = {};
  batchplan_gradient gradient = {};
  gradient.data_type = BATCHPLAN_FLOAT32;
  gradient.elements_per_token = 1;
  gradient.width = 4;
  gradient.source = unpacked.data();
  gradient.destination = sums.data();
  EXPECT_EQ(UnpackGradient(BATCHPLAN_BACKEND_HOST, row, sequences, gradient, nullptr),
            BATCHPLAN_OK);
  EXPECT_THAT(sums, ElementsAre(2, 4, 3, 4, 5));
}

}  // namespace
}  // namespace batchplan::kernels
