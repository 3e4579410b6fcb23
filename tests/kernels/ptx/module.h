// PTX as the executor runs it: kernels whose instructions are decoded.
//
// Registers, special registers and constants of a thread are slots of 64 bits. A register of fewer
// bits is read by its type, whatever the bits above hold.

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
  // Of a warp's lanes: `mask` is a source of each.
  kWarpSync,
  kShuffle,
  kVote,
  kWarpReduce,
  kMatch,
  // What has no effect here: prefetch, nanosleep.
  kNothing,
};

enum class Space : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };

// Of kShuffle, kVote, kAtomic, kWarpReduce and kBarrier.
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
  // The predicate that guards it, and the value at which it is skipped.
  int guard = kNoSlot;
  bool skipped_at = false;
  // Of kVote: whether its predicate is negated.
  bool negated = false;
  // An integer division: the second source may not be 0.
  bool divides = false;

  Space space = Space::kGeneric;
  Mode mode = Mode::kNone;
  Type type = Type::kBits;
  // Bytes of an element, and how many elements.
  uint8_t size = 4;
  uint8_t elements = 1;
  // ld.global.nc
  bool read_only = false;
  // Volatile, relaxed, acquire and release accesses, and atomics: they do not race with each other.
  bool strong = false;
  bool acquires = false;
  bool releases = false;

  // An address is the first source.
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
  // Where `_` is written.
  kDiscarded,
  kNumSpecialSlots,
};

// State spaces are windows of the generic one. Global addresses are those of DeviceMemory; what
// is an address in another space is an offset into its window.
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
  // As mangled; PrettyName is for people.
  std::string name;
  std::string pretty_name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  size_t shared_bytes = 0;
  size_t local_bytes = 0;
  // 0: any.
  uint32_t most_threads = 0;
  std::vector<Instruction> code;
  // Slots that hold a constant, and which.
  std::vector<std::pair<int, uint64_t>> constants;
  size_t num_slots = 0;
  // Of each instruction, for reports: its text, its line in the PTX, and that of the CUDA source.
  std::vector<std::string> text;
  std::vector<uint32_t> line;
  std::vector<std::string> source_line;
};

// By mangled name.
using Module = std::map<std::string, Kernel>;

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_MODULE_H_
