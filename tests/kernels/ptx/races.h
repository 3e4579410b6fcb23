// Which thread touched which byte, and what orders the accesses: finds races, bytes written twice,
// and reads of bytes that nobody wrote.
//
// Shadows of touched bytes reveal conflicts in whatever order the interpreter runs threads.

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

// An access by a thread.
struct Access {
  uint32_t block = 0;
  uint32_t thread = 0;
  // How many barriers the block has passed, and the thread's warp on its own.
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

// Shared memory of one block. The block's barriers order its threads; __syncwarp also orders those
// of a warp.
class SharedRaces {
 public:
  void Reset(size_t bytes);
  // The bytes must be within the memory.
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
    // In the same epoch as the last reader.
    bool several_readers = false;
    bool written_atomically = false;
  };
  static bool IsOrdered(const Party& before, const Access& access);

  std::vector<Byte> bytes_;
};

// Global memory within one launch. The block's barriers order its threads. Blocks are ordered only
// by a fence before a strong write and a fence behind the strong read that sees it, as when a
// grid's last block adds up what the others wrote.
class GlobalRaces {
 public:
  std::optional<Conflict> Note(const Access& access, uint64_t address, size_t bytes);
  // A block's fences and strong accesses, in order. The next strong write releases what came before
  // a fence; the next fence acquires what a strong read saw.
  void Fence(uint32_t block);
  void StrongAccess(uint32_t block, uint64_t address, bool reads, bool writes);

 private:
  static constexpr size_t kPageBytes = 256;

  struct Party {
    uint32_t block = 0;
    uint32_t time = 0;
    uint16_t thread = 0;
    // As far as epochs can be distinguished.
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
  // For each other block, the time until which its accesses come before.
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
  // Keyed by the address of a strong write.
  std::unordered_map<uint64_t, Clock> released_;
  // The pages looked up last, by number.
  struct Cached {
    uint64_t number = UINT64_MAX;
    Page* page = nullptr;
  };
  std::array<Cached, 64> cache_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_RACES_H_
