// The gradient of unpacking with shared prefixes: the documented example, edge cases, random
// forests compared with sums over paths followed token by token, rounding, and errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "packed_row.h"
#include "shared_case.h"

namespace batchplan::kernels {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;

using UnpackGradientTest = EveryBackendTest;
BATCHPLAN_EVERY_BACKEND(UnpackGradientTest);

TEST_P(UnpackGradientTest, GradientOfTheExampleIsTheSumOfItsSequences) {
  PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
  Buffer<float> source(GetParam(), {1, 1, 1, 1, 1,   NAN, NAN,  //
                                    2, 2, 2, 2, 2,   2,   2,    //
                                    4, 4, 4, 4, NAN, NAN, NAN});
  Buffer<float> gradient(GetParam(), row.cells());
  EXPECT_EQ(row.UnpackGradient({.num_rows = 3}, {.data_type = BATCHPLAN_FLOAT32,
                                                 .elements_per_token = 1,
                                                 .width = 7,
                                                 .source = source.data(),
                                                 .destination = gradient.data()}),
            BATCHPLAN_OK);
  EXPECT_THAT(gradient.Values(), ElementsAre(7, 7, 3, 1, 1, 2, 2, 2, 2, 4, 4, 0));
}

// Random bits of type T, which `data_type` names, so that another order of the sums has another
// result.
template <typename T>
void ExpectSums(batchplan_backend backend, batchplan_data_type data_type, PackedRow& row,
                const SharedCase& c, Generator& generator) {
  const NaiveForest naive(c.forest);
  const size_t elements = c.field.elements_per_token;
  std::vector<T> values(c.tokens() * elements);
  for (T& value : values) {
    value = std::ldexp(static_cast<T>(generator.Below(1U << 30)) - (1 << 29),
                       static_cast<int>(generator.Below(20)));
  }
  Buffer<uint32_t> index(backend, c.field.index);
  Buffer<int64_t> offsets(backend, c.offsets);
  Buffer<T> source(backend, values, generator.Below(3) * sizeof(T));
  Buffer<T> gradient(backend, row.cells() * elements, generator.Below(3) * sizeof(T));
  ASSERT_EQ(row.UnpackGradient(c.Sequences(index, offsets), {.data_type = data_type,
                                                             .elements_per_token = elements,
                                                             .width = c.field.width,
                                                             .source = source.data(),
                                                             .destination = gradient.data()}),
            BATCHPLAN_OK);
  std::vector<T> expected(row.cells() * elements);
  for (size_t i = 0; i < naive.paths.size(); ++i) {
    for (size_t token = 0; token < naive.paths[i].size(); ++token) {
      const auto cell = static_cast<size_t>(naive.paths[i][token]);
      for (size_t e = 0; e < elements; ++e) {
        expected[cell * elements + e] += values[c.PlaceOf(i, token) * elements + e];
      }
    }
  }
  ASSERT_EQ(gradient.Values(), expected);
}

TEST_P(UnpackGradientTest, GradientsAreSumsInTheOrderOfTheSequences) {
  ForEachForest(550, 100, [](const SharedCase& c, Generator& generator) {
    PackedRow row = RowOfForest(GetParam(), c.forest, c.tail);
    ExpectSums<float>(GetParam(), BATCHPLAN_FLOAT32, row, c, generator);
    ExpectSums<double>(GetParam(), BATCHPLAN_FLOAT64, row, c, generator);
  });
}

// The sum for a token that as many sequences share as there are values; all as bits.
uint16_t SumOf(batchplan_backend backend, batchplan_data_type data_type,
               const std::vector<uint16_t>& values, uint32_t elements_per_token = 1) {
  const size_t count = values.size();
  std::vector<uint16_t> elements;
  for (const uint16_t value : values) {
    elements.insert(elements.end(), elements_per_token, value);
  }
  std::vector<uint32_t> shared(count, 1);
  shared.front() = 0;
  PackedRow row(backend, std::vector<uint32_t>(count, 1), RowOfWidth(1), 0, shared);
  Buffer<uint16_t> source(backend, elements);
  Buffer<uint16_t> gradient(backend, elements_per_token);
  EXPECT_EQ(row.UnpackGradient({.num_rows = count}, {.data_type = data_type,
                                                     .elements_per_token = elements_per_token,
                                                     .width = 1,
                                                     .source = source.data(),
                                                     .destination = gradient.data()}),
            BATCHPLAN_OK);
  const std::vector<uint16_t> sums = gradient.Values();
  EXPECT_THAT(sums, Each(sums.front()));
  return sums.front();
}

TEST_P(UnpackGradientTest, NarrowFloatsAreAddedUpInFloatAndRoundedOnce) {
  for (const uint32_t elements : {1U, 8U}) {
    const auto half = [&](const std::vector<uint16_t>& values) {
      return SumOf(GetParam(), BATCHPLAN_FLOAT16, values, elements);
    };
    const auto bfloat16 = [&](const std::vector<uint16_t>& values) {
      return SumOf(GetParam(), BATCHPLAN_BFLOAT16, values, elements);
    };
    // 2048 + 1 + 1 is 2050; the intermediate 2049 is not rounded to 2048. 2049 and 2051 round to
    // the even neighbour.
    EXPECT_EQ(half({0x6800, 0x3C00, 0x3C00}), 0x6801);
    EXPECT_EQ(half({0x6800, 0x3C00}), 0x6800);
    EXPECT_EQ(half({0x6800, 0x4200}), 0x6802);
    // 65504 + 16 is infinite, 65504 + 15 is not; nor is a sum that is only infinite in between.
    EXPECT_EQ(half({0x7BFF, 0x4C00}), 0x7C00);
    EXPECT_EQ(half({0x7BFF, 0x4B80}), 0x7BFF);
    EXPECT_EQ(half({0x7BFF, 0x7BFF, 0xFBFF}), 0x7BFF);
    // The two smallest numbers; the largest subnormal and the smallest number.
    EXPECT_EQ(half({0x0001, 0x0001}), 0x0002);
    EXPECT_EQ(half({0x83FF, 0x8001}), 0x8400);
    EXPECT_EQ(bfloat16({0x4380, 0x3F80, 0x3F80}), 0x4381);
    EXPECT_EQ(bfloat16({0x4380, 0x3F80}), 0x4380);
    EXPECT_EQ(bfloat16({0x4380, 0x4040}), 0x4382);
    EXPECT_EQ(bfloat16({0x7F7F, 0x7F7F}), 0x7F80);
  }
}

// The gradient of a single sequence is unchanged; a NaN becomes some NaN.
TEST_P(UnpackGradientTest, EveryNarrowFloatIsKept) {
  std::vector<uint16_t> values(1U << 16);
  std::iota(values.begin(), values.end(), uint16_t{0});
  const auto count = static_cast<uint32_t>(values.size());
  for (const auto& [data_type, infinity] :
       {std::pair{BATCHPLAN_FLOAT16, 0x7C00}, std::pair{BATCHPLAN_BFLOAT16, 0x7F80}}) {
    PackedRow row(GetParam(), {count}, RowOfWidth(count), 0, std::vector<uint32_t>{0});
    Buffer<uint16_t> source(GetParam(), values);
    Buffer<uint16_t> gradient(GetParam(), count);
    EXPECT_EQ(row.UnpackGradient({.num_rows = 1}, {.data_type = data_type,
                                                   .elements_per_token = 1,
                                                   .width = count,
                                                   .source = source.data(),
                                                   .destination = gradient.data()}),
              BATCHPLAN_OK);
    const std::vector<uint16_t> kept = gradient.Values();
    for (uint32_t i = 0; i < count; ++i) {
      if ((i & 0x7FFF) > static_cast<uint32_t>(infinity)) {
        ASSERT_GT(kept[i] & 0x7FFF, infinity) << i;
      } else {
        ASSERT_EQ(kept[i], i);
      }
    }
  }
}

TEST_P(UnpackGradientTest, RowsWithoutSequencesAreTail) {
  PackedRow row = RowOfForest(GetParam(), {}, 3);
  Buffer<float> values(GetParam(), 3);
  const batchplan_gradient gradient = {
      .data_type = BATCHPLAN_FLOAT32, .elements_per_token = 1, .destination = values.data()};
  EXPECT_EQ(row.UnpackGradient({}, gradient), BATCHPLAN_OK);
  EXPECT_THAT(values.Values(), Each(0));
  PackedRow nothing = RowOfForest(GetParam(), {}, 0);
  EXPECT_EQ(nothing.UnpackGradient({}, gradient), BATCHPLAN_OK);
}

TEST_P(UnpackGradientTest, GradientsOfOtherTypesAndOfRowsThatShareNothingAreRefused) {
  PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
  Buffer<double> source(GetParam(), 3 * 7);
  Buffer<double> destination(GetParam(), row.cells());
  const batchplan_gradient good = {.data_type = BATCHPLAN_FLOAT32,
                                   .elements_per_token = 1,
                                   .width = 7,
                                   .source = source.data(),
                                   .destination = destination.data()};
  const auto status_of = [&](const batchplan_gradient& gradient) {
    return row.UnpackGradient({.num_rows = 3}, gradient);
  };
  batchplan_gradient bad = good;
  for (const batchplan_data_type type : std::initializer_list<batchplan_data_type>{
           BATCHPLAN_UINT8, BATCHPLAN_INT32, BATCHPLAN_INT64, 7, -1}) {
    bad.data_type = type;
    EXPECT_EQ(status_of(bad), BATCHPLAN_ERROR_DATA_TYPE);
  }
  bad = good;
  bad.elements_per_token = 0;
  EXPECT_EQ(status_of(bad), BATCHPLAN_ERROR_TOKEN_SIZE);
  bad = good;
  bad.width = 6;
  EXPECT_EQ(status_of(bad), BATCHPLAN_ERROR_SEQUENCE_TOO_LONG);
  bad.width = UINT64_MAX;
  EXPECT_EQ(status_of(bad), BATCHPLAN_ERROR_WIDTH);
  bad = good;
  bad.source = nullptr;
  EXPECT_EQ(status_of(bad), BATCHPLAN_ERROR_NULL_POINTER);
  bad.source = reinterpret_cast<const char*>(source.data()) + 2;
  EXPECT_EQ(status_of(bad), BATCHPLAN_ERROR_MISALIGNED);
  EXPECT_EQ(row.UnpackGradient({.num_rows = 2}, good), BATCHPLAN_ERROR_SEQUENCE_INDEX);
  PackedRow apart(GetParam(), kExampleForest.lengths, RowOfWidth(24));
  EXPECT_EQ(apart.UnpackGradient({.num_rows = 3}, good), BATCHPLAN_ERROR_NULL_POINTER);
}

TEST_P(UnpackGradientTest, ErrorsOfCallsBeforeLeaveZerosAndRowsAsTheyWere) {
  PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
  Buffer<float> sequences(GetParam(), std::vector<float>(3 * 7, 2));
  Buffer<float> gradient(GetParam(), row.cells());
  row.SetOffsets({0, 5, 12, 11}, {0, 5, 9, 11});
  EXPECT_EQ(row.UnpackGradient({.num_rows = 3}, {.data_type = BATCHPLAN_FLOAT32,
                                                 .elements_per_token = 1,
                                                 .width = 7,
                                                 .source = sequences.data(),
                                                 .destination = gradient.data()}),
            BATCHPLAN_ERROR_LAYOUT);
  EXPECT_THAT(gradient.Values(), Each(AnyOf(0, 2, 4, 6)));
}

}  // namespace
}  // namespace batchplan::kernels
