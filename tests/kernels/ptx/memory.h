// The memory of the device: an arena that is mapped twice. Device pointers lie in a view that the
// host may not touch, as on most machines with a GPU; the interpreter and copies go through the
// other one. Managed memory is readable and writable in both.
//
// Addresses are not used again, so that a kernel that keeps a freed pointer is found. For one
// thread at a time.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_MEMORY_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace batchplan::ptx {

struct Allocation {
  uint64_t begin = 0;
  uint64_t end = 0;
  // What kernels may touch of it: all, unless Restrict said otherwise.
  uint64_t kernel_begin = 0;
  uint64_t kernel_end = 0;
};

class DeviceMemory {
 public:
  // The one device's.
  static DeviceMemory& Get();

  // Aligned to 256 bytes and no more, as cudaMalloc promises, and filled with bytes that are no
  // zeros. nullptr: no room.
  void* Allocate(size_t bytes);
  void* AllocateManaged(size_t bytes);
  // False: not the begin of an allocation. nullptr is freed without effect.
  bool Free(void* pointer);

  // Within the arena, allocated or not.
  bool IsDevice(const void* pointer) const;
  // Where the host reaches `bytes` at a device pointer; nullptr if they are not within one
  // allocation.
  char* HostView(const void* pointer, size_t bytes);

  // Kernels may touch these bytes of their allocation alone: tests lay guards around them.
  void Restrict(const void* begin, size_t bytes);

  // The same for the access of a kernel, which may touch less than the host.
  char* KernelView(uint64_t address, size_t bytes);

  // Where an address lies, for people: "4 bytes behind the 64 bytes at 0x...".
  std::string Describe(uint64_t address) const;

 private:
  DeviceMemory();

  void* Add(size_t bytes, bool managed);
  Allocation* Find(uint64_t address);

  char* device_view_ = nullptr;
  char* host_view_ = nullptr;
  size_t used_ = 0;
  // By begin.
  std::map<uint64_t, Allocation> allocations_;
  Allocation* last_found_ = nullptr;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_MEMORY_H_
