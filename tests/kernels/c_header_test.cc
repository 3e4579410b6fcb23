#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "batchplan/kernels.h"

extern "C" batchplan_status LayoutFromC(const uint32_t* lengths, uint32_t num_sequences,
                                        int32_t* cu_seqlens);

namespace batchplan::kernels {
namespace {

TEST(CHeaderTest, LayoutIsComputedFromAProgramInC) {
  const std::array<uint32_t, 4> lengths = {2, 4, 6, 1};
  std::array<int32_t, 5> cu_seqlens_padded = {};
  EXPECT_EQ(LayoutFromC(lengths.data(), 4, cu_seqlens_padded.data()), BATCHPLAN_OK);
  EXPECT_THAT(cu_seqlens_padded, testing::ElementsAre(0, 4, 8, 16, 20));
}

}  // namespace
}  // namespace batchplan::kernels
