// Memory of a backend for tests, with guards around it.
//
//   Buffer<int32_t> out(backend, 20);
//   ... out.data() ...
//   EXPECT_THAT(out.Values(), ElementsAre(...));
//
// Reading back waits for the device; the test fails if a guard was overwritten. For one thread.

#ifndef BATCHPLAN_TESTS_KERNELS_MEMORY_H_
#define BATCHPLAN_TESTS_KERNELS_MEMORY_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "batchplan/kernels.h"

namespace batchplan::kernels {

// Bytes between two guards, aligned to 16 plus `misalignment`.
class Memory {
 public:
  Memory(batchplan_backend backend, size_t bytes, size_t misalignment = 0);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;

  void* data() { return static_cast<std::byte*>(block_) + offset_; }
  void Write(const void* source, size_t bytes);
  // Checks the guards too.
  void Read(void* target);

 private:
  const std::byte* GuardBehind() const;

  batchplan_backend backend_;
  size_t size_;
  size_t offset_;
  void* block_ = nullptr;
};

// `count` elements, initially with bytes that no test expects.
template <typename T>
class Buffer {
 public:
  Buffer(batchplan_backend backend, size_t count, size_t misalignment = 0)
      : count_(count), memory_(backend, count * sizeof(T), misalignment) {
    const std::vector<std::byte> unexpected(count * sizeof(T), std::byte{0x5e});
    memory_.Write(unexpected.data(), unexpected.size());
  }
  Buffer(batchplan_backend backend, const std::vector<T>& values, size_t misalignment = 0)
      : count_(values.size()), memory_(backend, values.size() * sizeof(T), misalignment) {
    memory_.Write(values.data(), values.size() * sizeof(T));
  }

  T* data() { return static_cast<T*>(memory_.data()); }

  void Write(const std::vector<T>& values) {
    ASSERT_EQ(values.size(), count_);
    memory_.Write(values.data(), values.size() * sizeof(T));
  }

  std::vector<T> Values() {
    std::vector<T> values(count_);
    memory_.Read(values.data());
    return values;
  }

 private:
  size_t count_;
  Memory memory_;
};

// Zeros that need memory only when touched, for tensors with more elements than 32 bits can count.
// The host can access them too while the backend is idle.
class FarMemory {
 public:
  FarMemory(batchplan_backend backend, size_t bytes);
  ~FarMemory();
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;

  char* data() { return data_; }

 private:
  // Unused without CUDA.
  [[maybe_unused]] batchplan_backend backend_;
  size_t bytes_;
  char* data_ = nullptr;
};

// The names of the backends, for test names.
std::string BackendName(const testing::TestParamInfo<batchplan_backend>& info);

// A suite that runs on every backend; absent backends are skipped with the reason.
class EveryBackendTest : public testing::TestWithParam<batchplan_backend> {
 protected:
  void SetUp() override {
    if (const batchplan_status status = batchplan_backend_status(GetParam());
        status != BATCHPLAN_OK) {
      GTEST_SKIP() << batchplan_status_string(status);
    }
  }
};

// While it lives, two threads may write the same place, since a test's arrays may ask for that.
// Without it, the interpreter of kernels reports races.
class RacesAllowed {
 public:
  RacesAllowed();
  ~RacesAllowed();
  RacesAllowed(const RacesAllowed&) = delete;
  RacesAllowed& operator=(const RacesAllowed&) = delete;
};

#define BATCHPLAN_EVERY_BACKEND(suite)                                                      \
  INSTANTIATE_TEST_SUITE_P(EveryBackend, suite,                                             \
                           testing::Values(BATCHPLAN_BACKEND_HOST, BATCHPLAN_BACKEND_CUDA), \
                           BackendName)

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_KERNELS_MEMORY_H_
