// The memory of the device: an arena that is mapped twice. The host may not touch the view of
// device pointers, as on most machines with a GPU. The interpreter and copies use the other view.
// Managed memory is accessible in both.
//
// Addresses are never reused, so that uses of freed pointers are found. For one thread at a time.

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
  // The part that kernels may touch: all of it, unless Restrict was called.
  uint64_t kernel_begin = 0;
  uint64_t kernel_end = 0;
};

class DeviceMemory {
 public:
  // The memory of the only device.
  static DeviceMemory& Get();

  // Aligned to exactly 256 bytes, the least that cudaMalloc promises, and filled with nonzero
  // bytes. nullptr if there is no room.
  void* Allocate(size_t bytes);
  void* AllocateManaged(size_t bytes);
  // False if the pointer is not the beginning of an allocation. nullptr is ignored.
  bool Free(void* pointer);

  // Whether it is in the arena, allocated or not.
  bool IsDevice(const void* pointer) const;
  // Where the host can access `bytes` at a device pointer; nullptr if they are not within one
  // allocation.
  char* HostView(const void* pointer, size_t bytes);

  // Lets kernels touch only these bytes of their allocation, for guards of tests.
  void Restrict(const void* begin, size_t bytes);

  // HostView for a kernel, which may touch less than the host.
  char* KernelView(uint64_t address, size_t bytes);

  // Where an address is, in words: "4 bytes behind the 64 bytes at 0x...".
  std::string Describe(uint64_t address) const;

 private:
  DeviceMemory();

  void* Add(size_t bytes, bool managed);
  Allocation* Find(uint64_t address);

  char* device_view_ = nullptr;
  char* host_view_ = nullptr;
  size_t used_ = 0;
  // Keyed by the first address.
  std::map<uint64_t, Allocation> allocations_;
  Allocation* last_found_ = nullptr;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_MEMORY_H_
