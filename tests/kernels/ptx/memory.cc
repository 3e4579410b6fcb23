#include "ptx/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace batchplan::ptx {
namespace {

// The size of the address space; pages need memory once they are touched.
constexpr size_t kArenaBytes = size_t{1} << 40;
constexpr size_t kPage = 4096;
// The offset of an allocation in its first page.
constexpr size_t kAlignment = 256;
// Allocated memory is undefined, so it gets a byte that no test expects. Larger allocations stay
// zero, so that they need no memory before they are used.
constexpr int kFill = 0xcd;
constexpr size_t kMostFilled = size_t{1} << 26;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::abort();
}

std::string Hex(uint64_t address) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

DeviceMemory& DeviceMemory::Get() {
  static auto* const memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory() {
  const int file = memfd_create("device memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kArenaBytes) != 0) Die("memfd_create");
  const auto map = [&](int protection) {
    void* const view = mmap(nullptr, kArenaBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (view == MAP_FAILED) Die("mmap");
    return static_cast<char*>(view);
  };
  device_view_ = map(PROT_NONE);
  host_view_ = map(PROT_READ | PROT_WRITE);
  close(file);
}

void* DeviceMemory::Allocate(size_t bytes) { return Add(bytes, /*managed=*/false); }

void* DeviceMemory::AllocateManaged(size_t bytes) { return Add(bytes, /*managed=*/true); }

void* DeviceMemory::Add(size_t bytes, bool managed) {
  // A page stays free behind each allocation.
  const size_t room = (kAlignment + bytes + kPage - 1) / kPage * kPage + kPage;
  if (bytes > kArenaBytes || used_ + room > kArenaBytes) return nullptr;
  char* const page = device_view_ + used_;
  char* const begin = page + kAlignment;
  if (managed && mprotect(page, room - kPage, PROT_READ | PROT_WRITE) != 0) return nullptr;
  if (bytes <= kMostFilled) std::memset(host_view_ + used_ + kAlignment, kFill, bytes);
  used_ += room;
  const uint64_t address = AddressOf(begin);
  allocations_[address] = {address, address + bytes, address, address + bytes};
  return begin;
}

bool DeviceMemory::Free(void* pointer) {
  if (pointer == nullptr) return true;
  const auto found = allocations_.find(AddressOf(pointer));
  if (found == allocations_.end()) return false;
  last_found_ = nullptr;
  const size_t first = static_cast<size_t>(static_cast<char*>(pointer) - device_view_) - kAlignment;
  const size_t bytes = found->second.end - found->second.begin;
  const size_t pages = (kAlignment + bytes + kPage - 1) / kPage * kPage;
  madvise(host_view_ + first, pages, MADV_REMOVE);
  mprotect(device_view_ + first, pages, PROT_NONE);
  allocations_.erase(found);
  return true;
}

bool DeviceMemory::IsDevice(const void* pointer) const {
  return AddressOf(pointer) - AddressOf(device_view_) < kArenaBytes;
}

Allocation* DeviceMemory::Find(uint64_t address) {
  if (last_found_ != nullptr && address >= last_found_->begin && address < last_found_->end) {
    return last_found_;
  }
  auto above = allocations_.upper_bound(address);
  if (above == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(above)->second;
  if (address >= allocation.end) return nullptr;
  return last_found_ = &allocation;
}

char* DeviceMemory::HostView(const void* pointer, size_t bytes) {
  const Allocation* const allocation = Find(AddressOf(pointer));
  if (allocation == nullptr || allocation->end - AddressOf(pointer) < bytes) return nullptr;
  return host_view_ + (AddressOf(pointer) - AddressOf(device_view_));
}

void DeviceMemory::Restrict(const void* begin, size_t bytes) {
  Allocation* const allocation = Find(AddressOf(begin));
  if (allocation == nullptr) return;
  allocation->kernel_begin = AddressOf(begin);
  allocation->kernel_end = AddressOf(begin) + bytes;
}

char* DeviceMemory::KernelView(uint64_t address, size_t bytes) {
  const Allocation* const allocation = Find(address);
  if (allocation == nullptr || address < allocation->kernel_begin ||
      address + bytes > allocation->kernel_end) {
    return nullptr;
  }
  return host_view_ + (address - AddressOf(device_view_));
}

std::string DeviceMemory::Describe(uint64_t address) const {
  if (address == 0) return "the null pointer";
  if (address - AddressOf(device_view_) >= kArenaBytes) {
    return "address " + Hex(address) + ", which is not the device's";
  }
  const auto above = allocations_.upper_bound(address);
  if (above == allocations_.begin()) return "address " + Hex(address) + ", before all allocations";
  const Allocation& allocation = std::prev(above)->second;
  const std::string of = " of the " +
                         std::to_string(allocation.kernel_end - allocation.kernel_begin) +
                         " bytes at " + Hex(allocation.kernel_begin);
  if (address < allocation.kernel_begin) {
    return "address " + Hex(address) + ", " + std::to_string(allocation.kernel_begin - address) +
           " bytes before the begin" + of;
  }
  if (address < allocation.kernel_end) {
    return "address " + Hex(address) + ", byte " +
           std::to_string(address - allocation.kernel_begin) + of;
  }
  return "address " + Hex(address) + ", " + std::to_string(address - allocation.kernel_end) +
         " bytes behind the end" + of + ", or freed";
}

}  // namespace batchplan::ptx
