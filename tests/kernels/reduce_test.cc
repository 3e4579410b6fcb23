// Sums and means per sequence: those of packed rows equal those of padded ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "naive_row.h"
#include "packed_row.h"
#include "random_cases.h"

namespace batchplan::kernels {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using ReduceTest = EveryBackendTest;
BATCHPLAN_EVERY_BACKEND(ReduceTest);

// All outputs of a reduction.
struct Reduced {
  std::vector<float> sums;
  std::vector<float> weight_sums;
  std::vector<float> means;
  float sum_total = 0;
  float mean_total = 0;

  bool operator==(const Reduced&) const = default;
};

Reduced Reduce(batchplan_backend backend, PackedRow& row, batchplan_reduction reduction) {
  const size_t n = row.row().num_sequences;
  Buffer<float> sums(backend, n);
  Buffer<float> weight_sums(backend, n);
  Buffer<float> means(backend, n);
  Buffer<float> sum_total(backend, 1);
  Buffer<float> mean_total(backend, 1);
  reduction.sums = sums.data();
  reduction.weight_sums = weight_sums.data();
  reduction.means = means.data();
  reduction.sum_total = sum_total.data();
  reduction.mean_total = mean_total.data();
  EXPECT_EQ(row.Reduce(reduction), BATCHPLAN_OK);
  return {.sums = sums.Values(),
          .weight_sums = weight_sums.Values(),
          .means = means.Values(),
          .sum_total = sum_total.Values().front(),
          .mean_total = mean_total.Values().front()};
}

TEST_P(ReduceTest, SequencesAreSummedWithoutTheirPaddingAndTheTail) {
  PackedRow row(GetParam(), {3, 0, 1},
                {.length_multiple = 2, .context_parallel = 1, .row_width = 8});
  Buffer<float> values(GetParam(), {1, 2, 4, kNan, 10, kNan, kNan, kNan});
  const Reduced reduced = Reduce(GetParam(), row, {.values = values.data()});
  EXPECT_THAT(reduced.sums, ElementsAre(7, 0, 10));
  EXPECT_THAT(reduced.weight_sums, ElementsAre(3, 0, 1));
  EXPECT_THAT(reduced.means, ElementsAre(7.0F / 3, 0, 10));
  EXPECT_EQ(reduced.sum_total, 17);
  EXPECT_EQ(reduced.mean_total, static_cast<float>(7.0 / 3 + 10));
}

TEST_P(ReduceTest, WeightsAndGlobalDenominatorsCount) {
  PackedRow row(GetParam(), {3, 2}, {.length_multiple = 1, .context_parallel = 1, .row_width = 5});
  Buffer<double> values(GetParam(), {1, 2, 4, 8, 16});
  Buffer<uint8_t> mask(GetParam(), {0, 1, 1, 0, 0});
  Buffer<float> denominators(GetParam(), {4, 0});
  Buffer<float> total_denominator(GetParam(), std::vector<float>{12});
  const Reduced reduced = Reduce(GetParam(), row,
                                 {.values = values.data(),
                                  .value_type = BATCHPLAN_FLOAT64,
                                  .weights = mask.data(),
                                  .weight_type = BATCHPLAN_UINT8,
                                  .denominators = denominators.data(),
                                  .total_denominator = total_denominator.data()});
  EXPECT_THAT(reduced.sums, ElementsAre(6, 0));
  EXPECT_THAT(reduced.weight_sums, ElementsAre(2, 0));
  EXPECT_THAT(reduced.means, ElementsAre(1.5F, 0));
  EXPECT_EQ(reduced.sum_total, 0.5F);
  EXPECT_EQ(reduced.mean_total, 0.125F);
}

TEST_P(ReduceTest, EveryDataTypeIsReadAsItsValue) {
  PackedRow row(GetParam(), {4}, {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  const auto expect = [&](auto& buffer, batchplan_data_type type, float sum) {
    EXPECT_EQ(Reduce(GetParam(), row, {.values = buffer.data(), .value_type = type}).sums.front(),
              sum)
        << "type " << type;
  };
  Buffer<float> floats(GetParam(), {1.5F, -2, 0, 4});
  Buffer<double> doubles(GetParam(), {1.5, -2, 0, 4});
  // 1, -2, the smallest subnormal times 2^10, 65504.
  Buffer<uint16_t> halves(GetParam(), {0x3c00, 0xc000, 0x0400, 0x7bff});
  // 1, -2, 0.5, 3.
  Buffer<uint16_t> bfloats(GetParam(), {0x3f80, 0xc000, 0x3f00, 0x4040});
  Buffer<uint8_t> bytes(GetParam(), {0, 1, 2, 255});
  Buffer<int32_t> ints(GetParam(), {1, -2, 3, 1 << 20});
  Buffer<int64_t> longs(GetParam(), {1, -2, 3, int64_t{1} << 40});
  expect(floats, BATCHPLAN_FLOAT32, 3.5F);
  expect(doubles, BATCHPLAN_FLOAT64, 3.5F);
  expect(halves, BATCHPLAN_FLOAT16, static_cast<float>(65503 + std::ldexp(1.0, -14)));
  expect(bfloats, BATCHPLAN_BFLOAT16, 2.5F);
  expect(bytes, BATCHPLAN_UINT8, 258);
  expect(ints, BATCHPLAN_INT32, 1048578);
  expect(longs, BATCHPLAN_INT64, static_cast<float>((int64_t{1} << 40) + 2));
}

TEST_P(ReduceTest, HalvesOfEveryBitPatternHaveTheirValue) {
  PackedRow row(GetParam(), {1}, {.length_multiple = 1, .context_parallel = 1, .row_width = 1});
  for (uint32_t bits = 0; bits < 0x10000; bits += 13) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1f);
    const auto fraction = static_cast<double>(bits & 0x3ff);
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) expected = fraction == 0 ? INFINITY : NAN;
    if ((bits & 0x8000) != 0) expected = -expected;
    Buffer<uint16_t> half(GetParam(), std::vector<uint16_t>{static_cast<uint16_t>(bits)});
    const float sum =
        Reduce(GetParam(), row, {.values = half.data(), .value_type = BATCHPLAN_FLOAT16})
            .sums.front();
    EXPECT_TRUE(sum == expected || (std::isnan(sum) && std::isnan(expected)))
        << std::hex << bits << ": " << sum << " for " << expected;
  }
}

struct Losses {
  std::vector<uint32_t> lengths;
  uint32_t width = 0;
  // [sequences, width], with NaN behind the sequences.
  std::vector<float> values;
  std::vector<float> weights;
};

Losses RandomLosses(std::mt19937& random) {
  Losses losses;
  losses.lengths.resize(1 + random() % 6);
  for (uint32_t& length : losses.lengths) length = static_cast<uint32_t>(random() % 900);
  losses.width = std::ranges::max(losses.lengths);
  std::normal_distribution<float> normal(0, 3);
  for (const uint32_t length : losses.lengths) {
    for (uint32_t token = 0; token < losses.width; ++token) {
      losses.values.push_back(token < length ? normal(random) : kNan);
      losses.weights.push_back(token < length ? std::abs(normal(random)) : kNan);
    }
  }
  return losses;
}

// Packs both fields into the row of `rank` and reduces them there.
Reduced ReducePacked(batchplan_backend backend, const Losses& losses,
                     const batchplan_layout_options& options, uint32_t rank) {
  PackedRow row(backend, losses.lengths, options, rank);
  Buffer<float> values(backend, losses.values);
  Buffer<float> weights(backend, losses.weights);
  Buffer<float> packed_values(backend, row.cells());
  Buffer<float> packed_weights(backend, row.cells());
  EXPECT_EQ(row.Pack({.num_rows = losses.lengths.size()},
                     {FieldOf(values.data(), packed_values.data(), losses.width, kNan),
                      FieldOf(weights.data(), packed_weights.data(), losses.width, kNan)}),
            BATCHPLAN_OK);
  return Reduce(backend, row,
                {.values = packed_values.data(),
                 .weights = packed_weights.data(),
                 .weight_type = BATCHPLAN_FLOAT32});
}

batchplan_layout_options PackedOptions(const Losses& losses, uint32_t ranks) {
  batchplan_layout_options options = {.length_multiple = 4 * ranks, .context_parallel = ranks};
  for (const uint32_t length : losses.lengths) {
    options.row_width += NaivePaddedLength(length, options);
  }
  return options;
}

TEST_P(ReduceTest, PackedLossIsThePaddedLossBitForBit) {
  std::mt19937 random(Seed(1));
  for (uint64_t round = 0; round < Cases(60); ++round) {
    const Losses losses = RandomLosses(random);
    const auto n = static_cast<uint32_t>(losses.lengths.size());
    // Reduces the padded batch in place.
    PackedRow padded(GetParam(), losses.lengths,
                     {.length_multiple = 1,
                      .context_parallel = 1,
                      .row_width = n * losses.width,
                      .sequence_width = losses.width});
    Buffer<float> values(GetParam(), losses.values);
    Buffer<float> weights(GetParam(), losses.weights);
    const Reduced expected = Reduce(
        GetParam(), padded,
        {.values = values.data(), .weights = weights.data(), .weight_type = BATCHPLAN_FLOAT32});
    EXPECT_EQ(ReducePacked(GetParam(), losses, PackedOptions(losses, 1), 0), expected);
    EXPECT_EQ(ReducePacked(GetParam(), losses, PackedOptions(losses, 3), BATCHPLAN_ALL_RANKS),
              expected);
    // Reduces on the host too, whatever the backend.
    EXPECT_EQ(ReducePacked(BATCHPLAN_BACKEND_HOST, losses, PackedOptions(losses, 1), 0), expected);
  }
}

// Values that cancel, so that any other order gives another sum.
double Cancelling(size_t i) { return std::array{1e16, 1.0, -1e16}[i % 3]; }

// The sum of the first `tokens` values in the order that reduce.h documents.
float SumInOrder(uint32_t tokens) {
  constexpr size_t kChunk = 2048;
  constexpr size_t kRunningSums = 256;
  double sum = 0;
  for (size_t begin = 0; begin < tokens; begin += kChunk) {
    std::vector<double> sums(kRunningSums);
    for (size_t i = begin; i < std::min<size_t>(tokens, begin + kChunk); ++i) {
      sums[(i - begin) % kRunningSums] += Cancelling(i);
    }
    for (size_t half = kRunningSums / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    sum += sums[0];
  }
  return static_cast<float>(sum);
}

TEST_P(ReduceTest, TokensAreAddedInTheDocumentedOrder) {
  const std::vector<uint32_t> lengths = {300, 0, 5000, 3, 2048, 2049, 6143, 1};
  std::vector<double> values;
  std::vector<float> expected;
  for (const uint32_t length : lengths) {
    for (uint32_t i = 0; i < length; ++i) values.push_back(Cancelling(i));
    expected.push_back(SumInOrder(length));
  }
  const auto width = static_cast<uint32_t>(values.size());
  PackedRow row(GetParam(), lengths,
                {.length_multiple = 1, .context_parallel = 1, .row_width = width});
  Buffer<double> buffer(GetParam(), values);
  const batchplan_reduction reduction = {.values = buffer.data(), .value_type = BATCHPLAN_FLOAT64};
  EXPECT_EQ(Reduce(GetParam(), row, reduction).sums, expected);

  // So are sums without a workspace.
  Buffer<float> sums(GetParam(), lengths.size());
  Buffer<batchplan_status> error_word(GetParam(), std::vector<batchplan_status>{BATCHPLAN_OK});
  batchplan_reduction alone = reduction;
  alone.sums = sums.data();
  EXPECT_EQ(
      batchplan_reduce(GetParam(), &row.row(), &alone, error_word.data(), nullptr, 0, nullptr),
      BATCHPLAN_OK);
  EXPECT_EQ(sums.Values(), expected);
}

TEST_P(ReduceTest, MaskedTokensAddNothingWhateverTheirValue) {
  PackedRow row(GetParam(), {3}, {.length_multiple = 1, .context_parallel = 1, .row_width = 3});
  Buffer<float> values(GetParam(), {1, kNan, 2});
  Buffer<uint8_t> mask(GetParam(), {1, 0, 1});
  const Reduced reduced =
      Reduce(GetParam(), row,
             {.values = values.data(), .weights = mask.data(), .weight_type = BATCHPLAN_UINT8});
  EXPECT_THAT(reduced.means, ElementsAre(1.5F));
}

TEST_P(ReduceTest, SumsAreExactToTheLastDigitOfAFloat) {
  std::mt19937 random(Seed(2));
  for (uint64_t round = 0; round < Cases(60); ++round) {
    const Losses losses = RandomLosses(random);
    const Reduced reduced = ReducePacked(GetParam(), losses, PackedOptions(losses, 1), 0);
    for (size_t i = 0; i < losses.lengths.size(); ++i) {
      long double sum = 0;
      for (uint32_t token = 0; token < losses.lengths[i]; ++token) {
        const size_t at = i * losses.width + token;
        sum += static_cast<long double>(losses.values[at]) * losses.weights[at];
      }
      EXPECT_FLOAT_EQ(reduced.sums[i], static_cast<float>(sum));
    }
  }
}

TEST_P(ReduceTest, PartsOfContextParallelRanksAddUpToTheSequence) {
  std::mt19937 random(Seed(3));
  for (uint64_t round = 0; round < Cases(60); ++round) {
    const Losses losses = RandomLosses(random);
    const uint32_t ranks = 2 + static_cast<uint32_t>(random() % 3);
    const batchplan_layout_options options = PackedOptions(losses, ranks);
    const Reduced whole = ReducePacked(GetParam(), losses, options, BATCHPLAN_ALL_RANKS);
    std::vector<double> sums(losses.lengths.size());
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Reduced part = ReducePacked(GetParam(), losses, options, rank);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += part.sums[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      // Relative to the magnitude of the parts, which may cancel.
      EXPECT_NEAR(sums[i], whole.sums[i], 1e-6 * (3.0 * losses.lengths[i] + 1));
    }
  }
}

TEST_P(ReduceTest, MoreSequencesThanThreadBlocksAreReduced) {
  constexpr uint32_t kSequences = 2500;
  PackedRow row(GetParam(), std::vector<uint32_t>(kSequences, 2),
                {.length_multiple = 1, .context_parallel = 1, .row_width = 2 * kSequences});
  // Each sequence has other values, so that a late read is noticed.
  std::vector<uint8_t> values(2 * size_t{kSequences});
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * i % 251);
  Buffer<uint8_t> buffer(GetParam(), values);
  const Reduced reduced =
      Reduce(GetParam(), row, {.values = buffer.data(), .value_type = BATCHPLAN_UINT8});
  double total = 0;
  for (uint32_t i = 0; i < kSequences; ++i) {
    const int sum = values[2 * i] + values[2 * i + 1];
    ASSERT_EQ(reduced.sums[i], static_cast<float>(sum)) << "sequence " << i;
    total += sum;
  }
  EXPECT_EQ(reduced.sum_total, static_cast<float>(total));

  // Without a workspace, a thread block loops over sequences.
  Buffer<float> sums(GetParam(), kSequences);
  Buffer<batchplan_status> error_word(GetParam(), std::vector<batchplan_status>{BATCHPLAN_OK});
  const batchplan_reduction alone = {
      .values = buffer.data(), .value_type = BATCHPLAN_UINT8, .sums = sums.data()};
  EXPECT_EQ(
      batchplan_reduce(GetParam(), &row.row(), &alone, error_word.data(), nullptr, 0, nullptr),
      BATCHPLAN_OK);
  EXPECT_EQ(sums.Values(), reduced.sums);
}

TEST_P(ReduceTest, NoSequencesHaveATotalOfNothing) {
  PackedRow row(GetParam(), {}, {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  const Reduced reduced = Reduce(GetParam(), row, {});
  EXPECT_EQ(reduced.sum_total, 0);
  EXPECT_EQ(reduced.mean_total, 0);
}

TEST_P(ReduceTest, WrongArgumentsAreRefused) {
  PackedRow row(GetParam(), {2}, {.length_multiple = 1, .context_parallel = 1, .row_width = 2});
  Buffer<float> values(GetParam(), {1, 2});
  Buffer<float> total(GetParam(), 1);
  EXPECT_EQ(row.Reduce({}), BATCHPLAN_ERROR_NULL_POINTER);
  EXPECT_EQ(row.Reduce({.values = values.data(), .value_type = 7}), BATCHPLAN_ERROR_DATA_TYPE);
  EXPECT_EQ(row.Reduce({.values = values.data(), .weights = values.data(), .weight_type = -1}),
            BATCHPLAN_ERROR_DATA_TYPE);
  EXPECT_EQ(row.Reduce({.values = reinterpret_cast<const char*>(values.data()) + 1}),
            BATCHPLAN_ERROR_MISALIGNED);
  EXPECT_EQ(row.Reduce({.values = values.data(),
                        .weights = reinterpret_cast<const char*>(values.data()) + 2,
                        .weight_type = BATCHPLAN_INT32}),
            BATCHPLAN_ERROR_MISALIGNED);
  EXPECT_EQ(
      row.Reduce({.values = values.data(),
                  .sums = reinterpret_cast<float*>(reinterpret_cast<char*>(total.data()) + 1)}),
      BATCHPLAN_ERROR_MISALIGNED);
  const batchplan_reduction wants_total = {.values = values.data(), .sum_total = total.data()};
  batchplan_status error_word = BATCHPLAN_OK;
  EXPECT_EQ(
      batchplan_reduce(GetParam(), &row.row(), &wants_total, &error_word, nullptr, 0, nullptr),
      BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL);
  Memory workspace(GetParam(), 64);
  size_t workspace_size = 0;
  ASSERT_EQ(batchplan_reduce_workspace_size(GetParam(), 1, 2, &workspace_size), BATCHPLAN_OK);
  EXPECT_EQ(batchplan_reduce(GetParam(), &row.row(), &wants_total, &error_word, workspace.data(),
                             workspace_size - 1, nullptr),
            BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL);
  EXPECT_EQ(batchplan_reduce(GetParam(), nullptr, &wants_total, &error_word, nullptr, 0, nullptr),
            BATCHPLAN_ERROR_NULL_POINTER);
  EXPECT_EQ(batchplan_reduce(GetParam(), &row.row(), nullptr, &error_word, nullptr, 0, nullptr),
            BATCHPLAN_ERROR_NULL_POINTER);
}

TEST_P(ReduceTest, OffsetsThatAreNoLayoutAreFound) {
  PackedRow row(GetParam(), {1, 1}, {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  Buffer<float> values(GetParam(), 4);
  for (const auto& padded : {std::vector<int32_t>{0, 3, 2}, std::vector<int32_t>{0, 1, INT32_MAX},
                             std::vector<int32_t>{INT32_MIN, 1, 2}}) {
    row.SetOffsets({0, 1, 2}, padded);
    EXPECT_EQ(row.Reduce({.values = values.data()}), BATCHPLAN_ERROR_LAYOUT);
  }
}

}  // namespace
}  // namespace batchplan::kernels
