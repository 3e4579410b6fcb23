#include "layout_runner.h"

#include <cstddef>
#include <cstring>
#include <utility>

#ifdef BATCHPLAN_KERNELS_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace batchplan::kernels {
namespace {

constexpr int32_t kGuard = 0x5eed5eed;

// Memory of one backend.
class Memory {
 public:
  Memory(batchplan_backend backend, size_t bytes) : backend_(backend), host_(bytes) {
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
    if (backend_ == BATCHPLAN_BACKEND_CUDA) Check(cudaMalloc(&device_, bytes));
#endif
  }
  ~Memory() {
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
    if (device_ != nullptr) static_cast<void>(cudaFree(device_));
#endif
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() { return backend_ == BATCHPLAN_BACKEND_CUDA ? device_ : host_.data(); }

  void Write(const void* source, size_t bytes) {
    if (bytes == 0) return;
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
    if (backend_ == BATCHPLAN_BACKEND_CUDA) {
      Check(cudaMemcpy(device_, source, bytes, cudaMemcpyHostToDevice));
      return;
    }
#endif
    std::memcpy(host_.data(), source, bytes);
  }

  void Read(void* target, size_t bytes) {
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
    if (backend_ == BATCHPLAN_BACKEND_CUDA) {
      Check(cudaMemcpy(target, device_, bytes, cudaMemcpyDeviceToHost));
      return;
    }
#endif
    std::memcpy(target, host_.data(), bytes);
  }

 private:
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  static void Check(cudaError_t error) {
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  }
#endif

  batchplan_backend backend_;
  std::vector<std::byte> host_;
  void* device_ = nullptr;
};

// An output array between two guard words.
class GuardedOutput {
 public:
  GuardedOutput(batchplan_backend backend, size_t count)
      : count_(count), memory_(backend, (count + 2) * sizeof(int32_t)) {
    const std::vector<int32_t> guards(count + 2, kGuard);
    memory_.Write(guards.data(), guards.size() * sizeof(int32_t));
  }

  int32_t* data() { return static_cast<int32_t*>(memory_.data()) + 1; }

  std::vector<int32_t> Values() {
    std::vector<int32_t> values(count_ + 2);
    memory_.Read(values.data(), values.size() * sizeof(int32_t));
    EXPECT_EQ(values.front(), kGuard);
    EXPECT_EQ(values.back(), kGuard);
    return {values.begin() + 1, values.end() - 1};
  }

 private:
  size_t count_;
  Memory memory_;
};

}  // namespace

LayoutResult RunLayout(batchplan_backend backend, const std::vector<uint32_t>& lengths,
                       const batchplan_layout_options& options, batchplan_status initial_error) {
  const auto num_sequences = static_cast<uint32_t>(lengths.size());
  Memory input(backend, lengths.size() * sizeof(uint32_t));
  input.Write(lengths.data(), lengths.size() * sizeof(uint32_t));
  Memory error_word(backend, sizeof(batchplan_status));
  error_word.Write(&initial_error, sizeof initial_error);
  GuardedOutput cu_seqlens(backend, lengths.size() + 1);
  GuardedOutput cu_seqlens_padded(backend, lengths.size() + 1);
  GuardedOutput cu_seqlens_padded_per_rank(backend, lengths.size() + 1);
  GuardedOutput max_seqlen(backend, 1);
  GuardedOutput max_seqlen_padded(backend, 1);
  const batchplan_packed_layout layout = {
      .cu_seqlens = cu_seqlens.data(),
      .cu_seqlens_padded = cu_seqlens_padded.data(),
      .cu_seqlens_padded_per_rank = cu_seqlens_padded_per_rank.data(),
      .max_seqlen = max_seqlen.data(),
      .max_seqlen_padded = max_seqlen_padded.data()};

  size_t workspace_size = 0;
  EXPECT_EQ(batchplan_layout_workspace_size(backend, num_sequences, &workspace_size), BATCHPLAN_OK);
  Memory workspace(backend, workspace_size);

  LayoutResult result;
  result.status = batchplan_compute_layout(
      backend, static_cast<const uint32_t*>(input.data()), num_sequences, &options, &layout,
      static_cast<batchplan_status*>(error_word.data()),
      workspace_size > 0 ? workspace.data() : nullptr, workspace_size, nullptr);
  error_word.Read(&result.error_word, sizeof result.error_word);
  if (result.status == BATCHPLAN_OK) result.status = result.error_word;
  result.cu_seqlens = cu_seqlens.Values();
  result.cu_seqlens_padded = cu_seqlens_padded.Values();
  result.cu_seqlens_padded_per_rank = cu_seqlens_padded_per_rank.Values();
  result.max_seqlen = max_seqlen.Values().front();
  result.max_seqlen_padded = max_seqlen_padded.Values().front();
  return result;
}

std::string BackendName(const testing::TestParamInfo<batchplan_backend>& info) {
  return info.param == BATCHPLAN_BACKEND_CUDA ? "cuda" : "host";
}

}  // namespace batchplan::kernels
