// Kernels of a few instructions, and the interpreter's findings.
//
//   TestKernel kernel("ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], 7;");
//   DeviceArray<uint32_t> out(1, 0);
//   kernel.Run({1, 32}, {out.address()});
//   EXPECT_THAT(kernel.findings(), IsEmpty());
//
// Registers: %p0 to %p7, and %rs, %r, %rd, %f and %fd from 0 to 15. Parameters of 64 bits: out, in
// and n.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_TEST_KERNEL_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_TEST_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ptx/executor.h"
#include "ptx/findings.h"
#include "ptx/memory.h"
#include "ptx/module.h"

namespace batchplan::ptx {

class TestKernel {
 public:
  // Throws ParseError.
  explicit TestKernel(const std::string& body);

  // Missing parameters are 0.
  Fault Run(Grid grid, std::vector<uint64_t> parameters = {});
  // The findings of the last run.
  const std::vector<Finding>& findings() const { return findings_; }
  std::vector<FindingKind> kinds() const;

 private:
  Module module_;
  std::vector<Finding> findings_;
};

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::vector<T> values)
      : size_(values.size()), memory_(DeviceMemory::Get().Allocate(size_ * sizeof(T))) {
    std::memcpy(View(), values.data(), size_ * sizeof(T));
  }
  DeviceArray(size_t size, T value) : DeviceArray(std::vector<T>(size, value)) {}
  ~DeviceArray() { DeviceMemory::Get().Free(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    std::memcpy(values.data(), View(), size_ * sizeof(T));
    return values;
  }

 private:
  char* View() const { return DeviceMemory::Get().HostView(memory_, size_ * sizeof(T)); }

  size_t size_;
  void* memory_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_TEST_KERNEL_H_
