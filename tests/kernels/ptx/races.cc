#include "ptx/races.h"

#include <algorithm>

namespace batchplan::ptx {
namespace {

constexpr uint32_t kWarpLanes = 32;

std::string ThreadText(uint64_t thread) { return "thread " + std::to_string(thread); }

}  // namespace

void SharedRaces::Reset(size_t bytes) { bytes_.assign(bytes, {}); }

bool SharedRaces::IsOrdered(const Party& before, const Access& access) {
  if (before.thread < 0 || before.thread == static_cast<int32_t>(access.thread)) return true;
  if (before.epoch != access.epoch) return true;
  return static_cast<uint32_t>(before.thread) / kWarpLanes == access.thread / kWarpLanes &&
         before.warp_epoch < access.warp_epoch;
}

std::optional<Conflict> SharedRaces::Note(const Access& access, size_t offset, size_t bytes) {
  std::optional<Conflict> conflict;
  for (size_t i = offset; i < offset + bytes; ++i) {
    Byte& byte = bytes_[i];
    const Party now = {static_cast<int32_t>(access.thread), access.epoch, access.warp_epoch};
    const bool both_atomic = access.atomic && byte.written_atomically;
    if (!access.writes || access.atomic) {
      if (byte.writer.thread < 0) {
        conflict = {FindingKind::kUninitialized, "shared memory is read that nobody wrote"};
      }
    }
    if (!both_atomic && !IsOrdered(byte.writer, access)) {
      conflict = {FindingKind::kSharedRace, "shared memory is accessed without a barrier after " +
                                                ThreadText(byte.writer.thread) + " wrote it"};
    }
    if (access.writes) {
      const bool others_read = byte.several_readers && byte.reader.epoch == access.epoch;
      if (!both_atomic && (others_read || !IsOrdered(byte.reader, access))) {
        conflict = {FindingKind::kSharedRace, "shared memory is written without a barrier after " +
                                                  ThreadText(byte.reader.thread) + " read it"};
      }
      byte.writer = now;
      byte.written_atomically = access.atomic;
      continue;
    }
    // Readers of one warp that __syncwarp orders do not count as several readers.
    const bool same_epoch = byte.reader.thread >= 0 && byte.reader.epoch == access.epoch;
    byte.several_readers = same_epoch && (byte.several_readers || !IsOrdered(byte.reader, access));
    byte.reader = now;
  }
  return conflict;
}

GlobalRaces::Page& GlobalRaces::PageAt(uint64_t address) {
  const uint64_t number = address / kPageBytes;
  Cached& cached = cache_[number % cache_.size()];
  if (cached.number != number) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    cached = {number, page.get()};
  }
  return *cached.page;
}

bool GlobalRaces::IsOrdered(const Party& before, const Access& access) const {
  if (before.block == access.block) return before.epoch != static_cast<uint16_t>(access.epoch);
  const auto order = blocks_.find(access.block);
  if (order == blocks_.end()) return false;
  const auto acquired = order->second.acquired.find(before.block);
  return acquired != order->second.acquired.end() && before.time < acquired->second;
}

std::optional<Conflict> GlobalRaces::Note(const Access& access, uint64_t address, size_t bytes) {
  std::optional<Conflict> conflict;
  for (size_t i = 0; i < bytes; ++i) {
    Page& page = PageAt(address + i);
    if (auto found = NoteByte(page[(address + i) % kPageBytes], access)) conflict = found;
  }
  return conflict;
}

std::optional<Conflict> GlobalRaces::NoteByte(Byte& byte, const Access& access) {
  const auto text = [](const Party& party) {
    return "block " + std::to_string(party.block) + ", " + ThreadText(party.thread);
  };
  const Party now = {access.block, time_, static_cast<uint16_t>(access.thread),
                     static_cast<uint16_t>(access.epoch)};
  const bool stored = byte.plainly_stored || byte.strongly_stored;
  const bool written = stored || byte.changed_atomically;
  const bool both_strong = access.strong && !byte.plainly_stored;
  // Other threads' reads that nothing orders before this access.
  const bool others_read = byte.read && (byte.several_readers || !byte.reader.Is(access)) &&
                           !IsOrdered(byte.reader, access);
  std::optional<Conflict> conflict;
  if (access.read_only ? written : access.writes && byte.read_only) {
    conflict = {FindingKind::kReadOnly, "read by ld.global.nc and written in the same launch"};
  } else if (written && !byte.writer.Is(access) && !both_strong &&
             !IsOrdered(byte.writer, access)) {
    conflict = {FindingKind::kGlobalRace, std::string(access.writes ? "written" : "read") +
                                              " though " + text(byte.writer) +
                                              " writes it in the same launch"};
  } else if (access.writes && !access.atomic && stored && !both_strong) {
    conflict = {FindingKind::kWrittenTwice, "written again after " + text(byte.writer)};
  } else if (access.writes && others_read) {
    conflict = {FindingKind::kGlobalRace,
                "written though " + text(byte.reader) + " reads it in the same launch"};
  }
  if (access.writes) {
    byte.writer = now;
    if (access.atomic) {
      byte.changed_atomically = true;
    } else if (access.strong) {
      byte.strongly_stored = true;
    } else {
      byte.plainly_stored = true;
    }
  } else if (!access.strong) {
    byte.several_readers = others_read;
    byte.reader = now;
    byte.read = true;
    byte.read_only |= access.read_only;
  }
  return conflict;
}

void GlobalRaces::Fence(uint32_t block) {
  BlockOrder& order = blocks_[block];
  order.fence = ++time_;
  for (const auto& [other, time] : order.seen) {
    uint32_t& acquired = order.acquired[other];
    acquired = std::max(acquired, time);
  }
  order.seen.clear();
}

void GlobalRaces::StrongAccess(uint32_t block, uint64_t address, bool reads, bool writes) {
  BlockOrder& order = blocks_[block];
  if (reads) {
    const auto released = released_.find(address);
    if (released != released_.end()) {
      for (const auto& [other, time] : released->second) {
        uint32_t& seen = order.seen[other];
        seen = std::max(seen, time);
      }
    }
  }
  if (writes && order.fence != 0) {
    Clock& clock = released_[address];
    for (const auto& [other, time] : order.acquired) {
      uint32_t& known = clock[other];
      known = std::max(known, time);
    }
    clock[block] = std::max(clock[block], order.fence);
  }
}

}  // namespace batchplan::ptx
