// Who touched which byte, and what orders it: races, bytes written twice, reads of what nobody
// wrote.
//
// Shadows of the bytes that are touched tell conflicts whatever the order in which the interpreter
// happens to run threads.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_RACES_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_RACES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/findings.h"

namespace batchplan::ptx {

// Who accesses, and how.
struct Access {
  uint32_t block = 0;
  uint32_t thread = 0;
  // How often the block has passed a barrier, and the thread's warp one of its own.
  uint32_t epoch = 0;
  uint32_t warp_epoch = 0;
  bool writes = false;
  bool atomic = false;
  bool strong = false;
  bool read_only = false;
};

struct Conflict {
  FindingKind kind;
  std::string what;
};

// Shared memory of one block. Threads of a block are ordered by its barriers, those of a warp also
// by
// __syncwarp.
class SharedRaces {
 public:
  void Reset(size_t bytes);
  // The bytes are within.
  std::optional<Conflict> Note(const Access& access, size_t offset, size_t bytes);

 private:
  struct Party {
    int32_t thread = -1;
    uint32_t epoch = 0;
    uint32_t warp_epoch = 0;
  };
  struct Byte {
    Party writer;
    Party reader;
    // In the same epoch as the reader, who is the last one.
    bool several_readers = false;
    bool written_atomically = false;
  };
  static bool IsOrdered(const Party& before, const Access& access);

  std::vector<Byte> bytes_;
};

// Global memory within one launch. Threads of a block are ordered by its barriers; blocks by
// nothing but a fence before a strong write and one behind the strong read that sees it, as where
// the last block of a grid adds up what the others left.
class GlobalRaces {
 public:
  std::optional<Conflict> Note(const Access& access, uint64_t address, size_t bytes);
  // A block's fences and strong accesses, in their order: what it did before the first is released
  // by the next strong write, and what a strong read saw is acquired by the next fence.
  void Fence(uint32_t block);
  void StrongAccess(uint32_t block, uint64_t address, bool reads, bool writes);

 private:
  static constexpr size_t kPageBytes = 256;

  struct Party {
    uint32_t block = 0;
    uint32_t time = 0;
    uint16_t thread = 0;
    // As far as it is told apart.
    uint16_t epoch = 0;

    bool Is(const Access& access) const { return block == access.block && thread == access.thread; }
  };
  struct Byte {
    Party writer;
    Party reader;
    bool plainly_stored : 1 = false;
    bool strongly_stored : 1 = false;
    bool changed_atomically : 1 = false;
    bool read : 1 = false;
    bool several_readers : 1 = false;
    bool read_only : 1 = false;
  };
  using Page = std::array<Byte, kPageBytes>;
  // Of each other block, the time up to which its accesses come before.
  using Clock = std::unordered_map<uint32_t, uint32_t>;
  struct BlockOrder {
    Clock acquired;
    Clock seen;
    uint32_t fence = 0;
  };

  Page& PageAt(uint64_t address);
  bool IsOrdered(const Party& before, const Access& access) const;
  std::optional<Conflict> NoteByte(Byte& byte, const Access& access);

  uint32_t time_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  std::unordered_map<uint32_t, BlockOrder> blocks_;
  // By the address of a strong write.
  std::unordered_map<uint64_t, Clock> released_;
  // The pages last looked up, by their number.
  struct Cached {
    uint64_t number = UINT64_MAX;
    Page* page = nullptr;
  };
  std::array<Cached, 64> cache_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_RACES_H_
