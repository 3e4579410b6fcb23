// A captured CUDA graph of layout, pack, reduction and unpack, replayed with other lengths, other
// rows and fewer sequences. No kernel is launched before the capture, so the captured launches are
// the first ones, for which a runtime may have to load the kernels.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "memory.h"
#include "packed_row.h"

namespace batchplan::kernels {
namespace {

using ::testing::ElementsAre;

constexpr batchplan_backend kCuda = BATCHPLAN_BACKEND_CUDA;
constexpr uint32_t kMostSequences = 3;
constexpr uint32_t kNoRow = UINT32_MAX;

class GraphTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const batchplan_status status = batchplan_backend_status(kCuda); status != BATCHPLAN_OK) {
      GTEST_SKIP() << batchplan_status_string(status);
    }
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Captures what `enqueue` does on the stream.
  template <typename Enqueue>
  void Capture(const Enqueue& enqueue) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    enqueue();
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&graph_, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }

  void Replay() {
    ASSERT_EQ(cudaGraphLaunch(graph_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

TEST_F(GraphTest, OneGraphServesMicrobatchesOfOtherLengths) {
  Buffer<uint32_t> lengths(kCuda, kMostSequences);
  Buffer<uint32_t> index(kCuda, kMostSequences);
  Buffer<int32_t> cu_seqlens(kCuda, kMostSequences + 1);
  Buffer<int32_t> cu_seqlens_padded(kCuda, kMostSequences + 1);
  Buffer<batchplan_status> error_word(kCuda, std::vector<batchplan_status>{BATCHPLAN_OK});
  Buffer<float> source(kCuda, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  Buffer<float> packed(kCuda, 10);
  Buffer<float> sums(kCuda, kMostSequences);
  Buffer<float> restored(kCuda, 12);
  Buffer<float> total(kCuda, 1);
  size_t workspace_size = 0;
  ASSERT_EQ(batchplan_reduce_workspace_size(kCuda, kMostSequences, 10, &workspace_size),
            BATCHPLAN_OK);
  Memory workspace(kCuda, workspace_size);

  const batchplan_row row = {
      .cu_seqlens = cu_seqlens.data(),
      .cu_seqlens_padded = cu_seqlens_padded.data(),
      .num_sequences = kMostSequences,
      .options = {.length_multiple = 2, .context_parallel = 1, .row_width = 10}};
  const batchplan_packed_layout layout = {.cu_seqlens = cu_seqlens.data(),
                                          .cu_seqlens_padded = cu_seqlens_padded.data()};
  const batchplan_sequences sequences = {.sequence_index = index.data(), .num_rows = 3};
  const batchplan_field field = FieldOf<float>(source.data(), packed.data(), 4);
  const batchplan_field output = FieldOf<float>(packed.data(), restored.data(), 4);
  const batchplan_reduction reduction = {
      .values = packed.data(), .sums = sums.data(), .sum_total = total.data()};
  Capture([&] {
    EXPECT_EQ(batchplan_compute_layout(kCuda, lengths.data(), nullptr, kMostSequences, &row.options,
                                       &layout, error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_pack(kCuda, &row, &sequences, &field, 1, error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_reduce(kCuda, &row, &reduction, error_word.data(), workspace.data(),
                               workspace_size, stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_unpack(kCuda, &row, &sequences, &output, 1, error_word.data(), stream_),
              BATCHPLAN_OK);
  });

  lengths.Write({3, 1, 4});
  index.Write({2, 0, 1});
  Replay();
  EXPECT_THAT(packed.Values(), ElementsAre(9, 10, 11, 0, 1, 0, 5, 6, 7, 8));
  EXPECT_THAT(sums.Values(), ElementsAre(30, 1, 26));
  EXPECT_THAT(total.Values(), ElementsAre(57));
  EXPECT_THAT(restored.Values(), ElementsAre(1, 0, 0, 0, 5, 6, 7, 8, 9, 10, 11, 0));

  // Two sequences: the third is absent, and row 2 is left alone.
  lengths.Write({2, 4, 0});
  index.Write({1, 0, kNoRow});
  Replay();
  EXPECT_THAT(packed.Values(), ElementsAre(5, 6, 1, 2, 3, 4, 0, 0, 0, 0));
  EXPECT_THAT(sums.Values(), ElementsAre(11, 10, 0));
  EXPECT_THAT(restored.Values(), ElementsAre(1, 2, 3, 4, 5, 6, 0, 0, 9, 10, 11, 0));
  EXPECT_THAT(error_word.Values(), ElementsAre(BATCHPLAN_OK));
}

TEST_F(GraphTest, OneGraphServesMicroBatchesThatShareOtherPrefixes) {
  Buffer<uint32_t> lengths(kCuda, kMostSequences);
  Buffer<uint32_t> shared(kCuda, kMostSequences);
  Buffer<uint32_t> index(kCuda, kMostSequences);
  Buffer<int32_t> cu_seqlens(kCuda, kMostSequences + 1);
  Buffer<int32_t> cu_new(kCuda, kMostSequences + 1);
  Buffer<int32_t> least_shared(kCuda, kMostSequences);
  Buffer<int32_t> subtree_end(kCuda, 10);
  Buffer<batchplan_status> error_word(kCuda, std::vector<batchplan_status>{BATCHPLAN_OK});
  Buffer<float> source(kCuda, {1, 2, 3, 4, 1, 2, 7, 8, 1, 10, 11, 12});
  Buffer<float> packed(kCuda, 10);
  Buffer<float> restored(kCuda, 12);
  Buffer<float> gradient(kCuda, 10);
  const batchplan_row row = {
      .cu_seqlens = cu_seqlens.data(),
      .cu_seqlens_padded = cu_new.data(),
      .num_sequences = kMostSequences,
      .options = {.length_multiple = 1, .context_parallel = 1, .row_width = 10},
      .least_shared = least_shared.data()};
  const batchplan_packed_layout layout = {.cu_seqlens = cu_seqlens.data(),
                                          .cu_seqlens_padded = cu_new.data(),
                                          .least_shared = least_shared.data(),
                                          .subtree_end = subtree_end.data()};
  const batchplan_sequences sequences = {.sequence_index = index.data(), .num_rows = 3};
  const batchplan_field field = FieldOf<float>(source.data(), packed.data(), 4);
  const batchplan_field output = FieldOf<float>(packed.data(), restored.data(), 4);
  const batchplan_gradient of_output = {.data_type = BATCHPLAN_FLOAT32,
                                        .elements_per_token = 1,
                                        .width = 4,
                                        .source = restored.data(),
                                        .destination = gradient.data()};
  Capture([&] {
    EXPECT_EQ(batchplan_compute_layout(kCuda, lengths.data(), shared.data(), kMostSequences,
                                       &row.options, &layout, error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_pack(kCuda, &row, &sequences, &field, 1, error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_unpack(kCuda, &row, &sequences, &output, 1, error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(
        batchplan_unpack_gradient(kCuda, &row, &sequences, &of_output, error_word.data(), stream_),
        BATCHPLAN_OK);
  });

  lengths.Write({4, 4, 3});
  shared.Write({0, 2, 1});
  index.Write({0, 1, 2});
  Replay();
  EXPECT_THAT(packed.Values(), ElementsAre(1, 2, 3, 4, 7, 8, 10, 11, 0, 0));
  EXPECT_THAT(subtree_end.Values(), ElementsAre(8, 6, 4, 4, 6, 6, 8, 8, 10, 10));
  EXPECT_THAT(restored.Values(), ElementsAre(1, 2, 3, 4, 1, 2, 7, 8, 1, 10, 11, 0));
  EXPECT_THAT(gradient.Values(), ElementsAre(3, 4, 3, 4, 7, 8, 10, 11, 0, 0));

  // Two sequences: the third is absent, and row 0 is left alone.
  lengths.Write({3, 2, 0});
  shared.Write({0, 1, 0});
  index.Write({2, 1, kNoRow});
  Replay();
  EXPECT_THAT(packed.Values(), ElementsAre(1, 10, 11, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(subtree_end.Values(), ElementsAre(4, 3, 3, 4, 10, 10, 10, 10, 10, 10));
  EXPECT_THAT(restored.Values(), ElementsAre(1, 2, 3, 4, 1, 2, 0, 0, 1, 10, 11, 0));
  EXPECT_THAT(gradient.Values(), ElementsAre(2, 10, 11, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(error_word.Values(), ElementsAre(BATCHPLAN_OK));
}

// Sequences of several chunks, whose sums are added up by a separate launch.
TEST_F(GraphTest, OneGraphServesLongSequencesAndWideTokens) {
  constexpr uint32_t kWidth = 6000;
  constexpr uint32_t kTokenBytes = 250;
  Buffer<uint32_t> lengths(kCuda, 2);
  Buffer<int32_t> cu_seqlens(kCuda, 3);
  Buffer<batchplan_status> error_word(kCuda, std::vector<batchplan_status>{BATCHPLAN_OK});
  std::vector<char> rows(2 * kWidth * kTokenBytes, 'a');
  std::fill(rows.begin() + kWidth * kTokenBytes, rows.end(), 'b');
  Buffer<char> source(kCuda, rows);
  Buffer<char> packed(kCuda, kWidth * kTokenBytes);
  Buffer<float> ones(kCuda, std::vector<float>(kWidth, 1));
  Buffer<float> sums(kCuda, 2);
  size_t workspace_size = 0;
  ASSERT_EQ(batchplan_reduce_workspace_size(kCuda, 2, kWidth, &workspace_size), BATCHPLAN_OK);
  Memory workspace(kCuda, workspace_size);

  const batchplan_row row = {
      .cu_seqlens = cu_seqlens.data(),
      .cu_seqlens_padded = cu_seqlens.data(),
      .num_sequences = 2,
      .options = {.length_multiple = 1, .context_parallel = 1, .row_width = kWidth}};
  const batchplan_packed_layout layout = {.cu_seqlens = cu_seqlens.data()};
  const batchplan_sequences sequences = {.num_rows = 2};
  const batchplan_field field = FieldOf(source.data(), packed.data(), kWidth, '.', kTokenBytes);
  const batchplan_reduction reduction = {.values = ones.data(), .sums = sums.data()};
  Capture([&] {
    EXPECT_EQ(batchplan_compute_layout(kCuda, lengths.data(), nullptr, 2, &row.options, &layout,
                                       error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_pack(kCuda, &row, &sequences, &field, 1, error_word.data(), stream_),
              BATCHPLAN_OK);
    EXPECT_EQ(batchplan_reduce(kCuda, &row, &reduction, error_word.data(), workspace.data(),
                               workspace_size, stream_),
              BATCHPLAN_OK);
  });

  for (const auto& [first, second] : {std::pair{5000U, 900U}, {1U, 5999U}, {2048U, 2049U}}) {
    lengths.Write({first, second});
    Replay();
    std::string expected(first * kTokenBytes, 'a');
    expected.append(second * kTokenBytes, 'b').resize(kWidth * kTokenBytes, '.');
    const std::vector<char> values = packed.Values();
    EXPECT_TRUE(std::string(values.begin(), values.end()) == expected) << first;
    EXPECT_THAT(sums.Values(), ElementsAre(first, second));
  }
  EXPECT_THAT(error_word.Values(), ElementsAre(BATCHPLAN_OK));
}

}  // namespace
}  // namespace batchplan::kernels
