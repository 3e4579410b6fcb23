// PTX in the executor's form: kernels with decoded instructions.
//
// Registers, special registers and constants of a thread are slots of 64 bits. A narrower register
// is read by its type, which ignores the upper bits.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_MODULE_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_MODULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace batchplan::ptx {

enum class Opcode : uint8_t {
  kArithmetic,
  kBranch,
  kExit,
  kLoad,
  kStore,
  kAtomic,
  kFence,
  kBarrier,
  // Synchronizes the lanes of a warp; each lane has a mask as source.
  kWarpSync,
  kShuffle,
  kVote,
  kWarpReduce,
  kMatch,
  // An instruction without an effect here, such as prefetch or nanosleep.
  kNothing,
};

enum class Space : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };

// Used by kShuffle, kVote, kAtomic, kWarpReduce and kBarrier.
enum class Mode : uint8_t {
  kNone,
  kUp,
  kDown,
  kButterfly,
  kIndex,
  kAll,
  kAny,
  kUniform,
  kBallot,
  kPopulation,
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kIncrement,
  kDecrement,
  kExchange,
  kCompareAndSwap,
};

enum class Type : uint8_t { kBits, kUnsigned, kSigned, kFloat, kPredicate };

struct Instruction;
using Arithmetic = void (*)(uint64_t* slots, const Instruction& instruction);

inline constexpr int kNoSlot = -1;

struct Instruction {
  Opcode opcode = Opcode::kArithmetic;
  Arithmetic arithmetic = nullptr;
  // The guarding predicate, and the value at which the instruction is skipped.
  int guard = kNoSlot;
  bool skipped_at = false;
  // For kVote: whether its predicate is negated.
  bool negated = false;
  // An integer division: the second source must not be 0.
  bool divides = false;

  Space space = Space::kGeneric;
  Mode mode = Mode::kNone;
  Type type = Type::kBits;
  // The size of an element in bytes, and the number of elements.
  uint8_t size = 4;
  uint8_t elements = 1;
  // ld.global.nc
  bool read_only = false;
  // Volatile, relaxed, acquire and release accesses and atomics, which do not race with each other.
  bool strong = false;
  bool acquires = false;
  bool releases = false;

  // The first source is an address.
  std::array<int, 8> destinations = {kNoSlot, kNoSlot, kNoSlot, kNoSlot,
                                     kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  std::array<int, 9> sources = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot,
                                kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  int64_t offset = 0;
  uint32_t target = 0;

  size_t bytes() const { return size_t{size} * elements; }
};

// The slots of special registers; those of registers and constants follow.
enum SpecialSlot : int {
  kThreadIndex,
  kThreads,
  kBlockIndex,
  kBlocks,
  kLane,
  kWarp,
  kLaneMaskEq,
  kLaneMaskLt,
  kLaneMaskLe,
  kLaneMaskGt,
  kLaneMaskGe,
  // The target of `_`.
  kDiscarded,
  kNumSpecialSlots,
};

// State spaces are windows of the generic space. Global addresses are those of DeviceMemory;
// addresses in another space are offsets into its window.
inline constexpr uint64_t kParamWindow = uint64_t{0x50} << 56;
inline constexpr uint64_t kSharedWindow = uint64_t{0x51} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{0x52} << 56;
inline constexpr uint64_t kWindowMask = uint64_t{0xff} << 56;
// Shared and local variables do not begin at 0, which would be a null pointer.
inline constexpr uint64_t kFirstOffset = 0x400;

struct Parameter {
  size_t offset;
  size_t size;
};

struct Kernel {
  // The mangled name; PrettyName makes it readable.
  std::string name;
  std::string pretty_name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  size_t shared_bytes = 0;
  size_t local_bytes = 0;
  // 0: no limit.
  uint32_t most_threads = 0;
  std::vector<Instruction> code;
  // The slots of constants, and their values.
  std::vector<std::pair<int, uint64_t>> constants;
  size_t num_slots = 0;
  // For reports: each instruction's text, its line in the PTX, and its line in the CUDA source.
  std::vector<std::string> text;
  std::vector<uint32_t> line;
  std::vector<std::string> source_line;
};

// Keyed by mangled name.
using Module = std::map<std::string, Kernel>;

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_MODULE_H_
