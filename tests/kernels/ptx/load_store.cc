#include "ptx/load_store.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ptx/memory.h"
#include "ptx/values.h"

namespace batchplan::ptx {
namespace {

// The value that an atomic instruction leaves.
template <typename T>
T AtomicResult(Mode mode, T old, T value, T swap) {
  switch (mode) {
    case Mode::kAdd:
      if constexpr (std::is_floating_point_v<T>)
        return old + value;
      else
        return static_cast<T>(Put(old) + Put(value));
    case Mode::kMin:
      return std::min(old, value);
    case Mode::kMax:
      return std::max(old, value);
    case Mode::kCompareAndSwap:
      return old == value ? swap : old;
    case Mode::kExchange:
      return value;
    default:
      if constexpr (std::is_integral_v<T>) {
        if (mode == Mode::kAnd) return old & value;
        if (mode == Mode::kOr) return old | value;
        if (mode == Mode::kXor) return old ^ value;
        // Wraps around within 0 .. `value`.
        if (mode == Mode::kIncrement) return old >= value ? 0 : old + 1;
        if (mode == Mode::kDecrement) return old == 0 || old > value ? value : old - 1;
      }
      return value;
  }
}

}  // namespace

Fault LoadStore::Load(ThreadBlock& block, uint32_t thread, uint32_t at) {
  const Instruction& instruction = kernel_.code[at];
  const Located from = Locate(block, thread, at, /*writes=*/false);
  if (from.fault != Fault::kNone) return from.fault;
  uint64_t* const slots = block.threads[thread].slots;
  for (uint32_t i = 0; i < instruction.elements; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, from.data + size_t{i} * instruction.size, instruction.size);
    if (instruction.type == Type::kSigned) {
      const uint32_t above = 64 - 8 * uint32_t{instruction.size};
      value = static_cast<uint64_t>(static_cast<int64_t>(value << above) >> above);
    }
    slots[instruction.destinations[i]] = value;
  }
  return Fault::kNone;
}

Fault LoadStore::Store(ThreadBlock& block, uint32_t thread, uint32_t at) {
  const Instruction& instruction = kernel_.code[at];
  const Located to = Locate(block, thread, at, /*writes=*/true);
  if (to.fault != Fault::kNone) return to.fault;
  const uint64_t* const slots = block.threads[thread].slots;
  for (uint32_t i = 0; i < instruction.elements; ++i) {
    std::memcpy(to.data + size_t{i} * instruction.size, &slots[instruction.sources[1 + i]],
                instruction.size);
  }
  return Fault::kNone;
}

Fault LoadStore::Atomic(ThreadBlock& block, uint32_t thread, uint32_t at) {
  const Instruction& instruction = kernel_.code[at];
  const Located where = Locate(block, thread, at, /*writes=*/true);
  if (where.fault != Fault::kNone) return where.fault;
  const bool is_wide = instruction.size == 8;
  if (instruction.type == Type::kFloat) {
    is_wide ? AtomicOf<double>(block, thread, at, where.data)
            : AtomicOf<float>(block, thread, at, where.data);
  } else if (instruction.type == Type::kSigned) {
    is_wide ? AtomicOf<int64_t>(block, thread, at, where.data)
            : AtomicOf<int32_t>(block, thread, at, where.data);
  } else {
    is_wide ? AtomicOf<uint64_t>(block, thread, at, where.data)
            : AtomicOf<uint32_t>(block, thread, at, where.data);
  }
  return Fault::kNone;
}

template <typename T>
void LoadStore::AtomicOf(ThreadBlock& block, uint32_t thread, uint32_t at, std::byte* where) {
  const Instruction& instruction = kernel_.code[at];
  uint64_t* const slots = block.threads[thread].slots;
  T old{};
  std::memcpy(&old, where, sizeof old);
  const int swap = instruction.sources[2];
  const T left = AtomicResult<T>(instruction.mode, old, Get<T>(slots[instruction.sources[1]]),
                                 swap == kNoSlot ? T{} : Get<T>(slots[swap]));
  std::memcpy(where, &left, sizeof left);
  slots[instruction.destinations[0]] = Put(old);
}

LoadStore::Located LoadStore::Locate(ThreadBlock& block, uint32_t thread, uint32_t at,
                                     bool writes) {
  const Instruction& instruction = kernel_.code[at];
  Thread& running = block.threads[thread];
  uint64_t address =
      running.slots[instruction.sources[0]] + static_cast<uint64_t>(instruction.offset);
  Space space = instruction.space;
  if (space == Space::kShared) address = static_cast<uint32_t>(address);
  if (space == Space::kGeneric) {
    const uint64_t window = address & kWindowMask;
    space = window == kSharedWindow  ? Space::kShared
            : window == kLocalWindow ? Space::kLocal
            : window == kParamWindow ? Space::kParam
                                     : Space::kGlobal;
    if (space != Space::kGlobal) address -= window;
  }
  const size_t bytes = instruction.bytes();
  if (address % bytes != 0) {
    findings_.Add(FindingKind::kMisaligned,
                  "misaligned by " + std::to_string(address % bytes) + " bytes", block.index,
                  thread, at, Describe(space, address));
    return {nullptr, Fault::kMisalignedAddress};
  }
  std::byte* const found = Find(block, thread, at, space, address, writes);
  if (found == nullptr) {
    findings_.Add(FindingKind::kOutOfBounds,
                  std::string(writes ? "writes" : "reads") + " out of bounds", block.index, thread,
                  at, Describe(space, address));
    return {nullptr, Fault::kIllegalAddress};
  }
  if (options_.on_counts && (space == Space::kGlobal || space == Space::kShared)) {
    running.counter.Touch(at, address);
  }
  return {found, Fault::kNone};
}

// Also checks for races; nullptr if the address is not within the space.
std::byte* LoadStore::Find(ThreadBlock& block, uint32_t thread, uint32_t at, Space space,
                           uint64_t address, bool writes) {
  const Instruction& instruction = kernel_.code[at];
  const size_t bytes = instruction.bytes();
  const auto is_within = [&](uint64_t offset, size_t size) {
    return offset < size && size - offset >= bytes;
  };
  if (space == Space::kParam) {
    if (writes || !is_within(address, parameters_.size())) return nullptr;
    return const_cast<std::byte*>(parameters_.data()) + address;
  }
  if (space == Space::kLocal) {
    const uint64_t offset = address - kFirstOffset;
    if (!is_within(offset, kernel_.local_bytes)) return nullptr;
    return &block.local[thread * kernel_.local_bytes + offset];
  }
  const Access access = {.block = block.index,
                         .thread = thread,
                         .epoch = block.epoch,
                         .warp_epoch = block.warp_epochs[thread / kWarpLanes],
                         .writes = writes,
                         .atomic = instruction.opcode == Opcode::kAtomic,
                         .strong = instruction.strong,
                         .read_only = instruction.read_only};
  if (space == Space::kShared) {
    const uint64_t offset = address - kFirstOffset;
    if (!is_within(offset, block.shared.size())) return nullptr;
    if (options_.checks) {
      Report(block.shared_races.Note(access, offset, bytes), access, at, space, address);
    }
    return &block.shared[offset];
  }
  char* const found = DeviceMemory::Get().KernelView(address, bytes);
  if (found == nullptr) return nullptr;
  if (options_.checks) {
    if (instruction.strong) {
      if (instruction.releases) global_races_.Fence(block.index);
      global_races_.StrongAccess(block.index, address, !writes || access.atomic, writes);
      if (instruction.acquires) global_races_.Fence(block.index);
    }
    Report(global_races_.Note(access, address, bytes), access, at, space, address);
  }
  return reinterpret_cast<std::byte*>(found);
}

void LoadStore::Report(const std::optional<Conflict>& conflict, const Access& access, uint32_t at,
                       Space space, uint64_t address) {
  if (!conflict.has_value()) return;
  findings_.Add(conflict->kind, conflict->what, access.block, access.thread, at,
                Describe(space, address));
}

std::string LoadStore::Describe(Space space, uint64_t address) const {
  const auto offset = [&](const char* name, size_t bytes) {
    return "offset " + std::to_string(static_cast<int64_t>(address - kFirstOffset)) + " of the " +
           std::to_string(bytes) + " bytes of " + name + " memory";
  };
  if (space == Space::kShared) return offset("shared", kernel_.shared_bytes);
  if (space == Space::kLocal) return offset("local", kernel_.local_bytes);
  if (space == Space::kParam) {
    return "byte " + std::to_string(address) + " of the " + std::to_string(parameters_.size()) +
           " bytes of parameters";
  }
  return DeviceMemory::Get().Describe(address);
}

void LoadStore::Fence(const ThreadBlock& block) {
  if (options_.checks) global_races_.Fence(block.index);
}

}  // namespace batchplan::ptx
