// Which backends there are, and that an absent one says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "batchplan/kernels.h"

namespace batchplan::kernels {
namespace {

constexpr batchplan_layout_options kOptions = {
    .length_multiple = 1, .context_parallel = 1, .row_width = 4};

TEST(BackendTest, HostIsAlwaysAvailable) {
  EXPECT_EQ(batchplan_backend_status(BATCHPLAN_BACKEND_HOST), BATCHPLAN_OK);
  EXPECT_EQ(batchplan_backend_available(BATCHPLAN_BACKEND_HOST), 1);
}

TEST(BackendTest, CudaIsAvailableOrSaysWhyNot) {
  const batchplan_status status = batchplan_backend_status(BATCHPLAN_BACKEND_CUDA);
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  EXPECT_THAT(status, testing::AnyOf(BATCHPLAN_OK, BATCHPLAN_ERROR_NO_DEVICE));
#else
  EXPECT_EQ(status, BATCHPLAN_ERROR_BACKEND_NOT_BUILT);
#endif
  EXPECT_EQ(batchplan_backend_available(BATCHPLAN_BACKEND_CUDA), status == BATCHPLAN_OK ? 1 : 0);
}

TEST(BackendTest, NothingIsSaidOfTheHostsErrors) {
  EXPECT_STREQ(batchplan_backend_error(BATCHPLAN_BACKEND_HOST), "");
}

TEST(BackendTest, AbsentBackendRefusesWorkWithTheSameStatus) {
  const batchplan_status absent = batchplan_backend_status(BATCHPLAN_BACKEND_CUDA);
  if (absent == BATCHPLAN_OK) GTEST_SKIP() << "every backend is available here";
  const batchplan_packed_layout layout = {};
  batchplan_status error_word = BATCHPLAN_OK;
  EXPECT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_CUDA, nullptr, nullptr, 0, &kOptions,
                                     &layout, &error_word, nullptr),
            absent);
  EXPECT_EQ(error_word, BATCHPLAN_OK);
  // A backend that was never there has nothing more to say.
  EXPECT_EQ(std::string(batchplan_backend_error(BATCHPLAN_BACKEND_CUDA)).empty(),
            absent == BATCHPLAN_ERROR_BACKEND_NOT_BUILT);
}

TEST(BackendTest, NumberThatNamesNoBackendIsRefusedEverywhere) {
  constexpr batchplan_backend kUnknown = 7;
  const batchplan_packed_layout layout = {};
  size_t size = 0;
  EXPECT_EQ(batchplan_backend_status(kUnknown), BATCHPLAN_ERROR_UNKNOWN_BACKEND);
  EXPECT_EQ(batchplan_backend_available(kUnknown), 0);
  EXPECT_EQ(batchplan_reduce_workspace_size(kUnknown, 1, 1, &size),
            BATCHPLAN_ERROR_UNKNOWN_BACKEND);
  EXPECT_EQ(
      batchplan_compute_layout(kUnknown, nullptr, nullptr, 0, &kOptions, &layout, nullptr, nullptr),
      BATCHPLAN_ERROR_UNKNOWN_BACKEND);
}

TEST(BackendTest, WorkspaceQueryAnswersForAbsentBackendsToo) {
  for (const batchplan_backend backend : {BATCHPLAN_BACKEND_HOST, BATCHPLAN_BACKEND_CUDA}) {
    size_t size = 0;
    EXPECT_EQ(batchplan_reduce_workspace_size(backend, 1000, 5000, &size), BATCHPLAN_OK);
    EXPECT_GT(size, 0);
    EXPECT_EQ(batchplan_reduce_workspace_size(backend, 1000, 5000, nullptr),
              BATCHPLAN_ERROR_NULL_POINTER);
  }
}

TEST(StatusTest, EveryStatusHasItsOwnSentence) {
  std::set<std::string> sentences;
  for (batchplan_status status = BATCHPLAN_OK; status <= BATCHPLAN_ERROR_SHARED_PREFIXES;
       ++status) {
    sentences.insert(batchplan_status_string(status));
  }
  EXPECT_EQ(sentences.size(), BATCHPLAN_ERROR_SHARED_PREFIXES + 1);
  EXPECT_FALSE(sentences.contains("unknown status"));
  EXPECT_STREQ(batchplan_status_string(-1), "unknown status");
  EXPECT_STREQ(batchplan_status_string(1000), "unknown status");
}

}  // namespace
}  // namespace batchplan::kernels
