// Memory that test and backend can both reach: of the host, or managed memory of the GPU.
//
//   SharedArray<float> losses(backend, 100, -1.0F);
//
// Before reading it, the test must wait for the backend.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_BACKEND_MEMORY_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_BACKEND_MEMORY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "batchplan/worker_options.h"

namespace batchplan {

// Allocates for `backend`, which must be there; ends the process if memory runs out.
WorkerAllocator AllocatorOf(batchplan_backend backend);

inline std::string BackendName(const testing::TestParamInfo<batchplan_backend>& info) {
  return info.param == BATCHPLAN_BACKEND_CUDA ? "cuda" : "host";
}

template <typename T>
class SharedArray {
 public:
  SharedArray(batchplan_backend backend, size_t size, T value)
      : size_(size), allocator_(AllocatorOf(backend)) {
    if (size_ == 0) return;
    data_ = static_cast<T*>(allocator_.allocate(size_ * sizeof(T)));
    std::fill_n(data_, size_, value);
  }
  SharedArray(batchplan_backend backend, const std::vector<T>& values)
      : SharedArray(backend, values.size(), T{}) {
    std::copy(values.begin(), values.end(), data_);
  }
  SharedArray(SharedArray&& other) noexcept
      : size_(std::exchange(other.size_, 0)),
        data_(std::exchange(other.data_, nullptr)),
        allocator_(other.allocator_) {}
  SharedArray& operator=(SharedArray&&) = delete;
  ~SharedArray() {
    if (data_ != nullptr) allocator_.free(data_, size_ * sizeof(T));
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T operator[](size_t i) const { return data_[i]; }
  std::vector<T> ToVector() const { return {data_, data_ + size_}; }

 private:
  size_t size_;
  T* data_ = nullptr;
  WorkerAllocator allocator_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_BACKEND_MEMORY_H_
