#include "batchplan/kernels/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace batchplan::kernels {
namespace {

TEST(CopyTest, HostCopiesAtOnceAndHasNothingToWaitFor) {
  const std::array<uint32_t, 3> source = {7, 8, 9};
  std::array<uint32_t, 3> destination = {};
  EXPECT_EQ(batchplan_copy(BATCHPLAN_BACKEND_HOST, destination.data(), source.data(), 8, nullptr),
            BATCHPLAN_OK);
  EXPECT_THAT(destination, testing::ElementsAre(7, 8, 0));
  EXPECT_EQ(batchplan_wait(BATCHPLAN_BACKEND_HOST, nullptr), BATCHPLAN_OK);
}

TEST(CopyTest, NoBytesNeedNoPointers) {
  int value = 0;
  EXPECT_EQ(batchplan_copy(BATCHPLAN_BACKEND_HOST, nullptr, nullptr, 0, nullptr), BATCHPLAN_OK);
  EXPECT_EQ(batchplan_copy(BATCHPLAN_BACKEND_HOST, &value, nullptr, 4, nullptr),
            BATCHPLAN_ERROR_NULL_POINTER);
  EXPECT_EQ(batchplan_copy(BATCHPLAN_BACKEND_HOST, nullptr, &value, 4, nullptr),
            BATCHPLAN_ERROR_NULL_POINTER);
}

TEST(CopyTest, CudaCopiesInTheOrderOfItsStreamOrSaysWhyNot) {
  const std::array<uint32_t, 2> source = {7, 8};
  std::array<uint32_t, 2> destination = {};
  const batchplan_status available = batchplan_backend_status(BATCHPLAN_BACKEND_CUDA);
  EXPECT_EQ(batchplan_copy(BATCHPLAN_BACKEND_CUDA, destination.data(), source.data(), 8, nullptr),
            available);
  EXPECT_EQ(batchplan_wait(BATCHPLAN_BACKEND_CUDA, nullptr), available);
  if (available != BATCHPLAN_OK) return;
  EXPECT_EQ(destination, source);
}

TEST(CopyTest, NumberThatNamesNoBackendIsRefused) {
  EXPECT_EQ(batchplan_copy(7, nullptr, nullptr, 0, nullptr), BATCHPLAN_ERROR_UNKNOWN_BACKEND);
  EXPECT_EQ(batchplan_wait(7, nullptr), BATCHPLAN_ERROR_UNKNOWN_BACKEND);
}

}  // namespace
}  // namespace batchplan::kernels
