// The instructions of whole warps: __syncwarp, shuffles, votes, matches and reductions.

#include <array>
#include <bit>
#include <optional>

#include "ptx/thread_block.h"
#include "ptx/values.h"

namespace batchplan::ptx {
namespace {

class WarpInstruction {
 public:
  // The next instruction of `lane`.
  WarpInstruction(const Kernel& kernel, ThreadBlock& block, uint32_t warp, uint32_t lane,
                  LaunchFindings& findings)
      : block_(block),
        first_(warp * kWarpLanes),
        num_lanes_(block.Lanes(warp)),
        lane_(lane),
        at_(LaneThread(lane).at),
        instruction_(kernel.code[at_]),
        mask_(static_cast<uint32_t>(Source(lane, 0))),
        findings_(findings) {}

  // False if threads that the mask names are still missing.
  bool Run() {
    if (!AllHaveCome()) return false;
    if ((mask_ >> lane_ & 1) == 0) {
      Report("its mask leaves out the lane itself");
      mask_ |= 1U << lane_;
    }
    // All sources are read before results are written.
    std::array<uint64_t, kWarpLanes> values{};
    ForEachLane([&](uint32_t lane) { values[lane] = Source(lane, 1); });
    switch (instruction_.opcode) {
      case Opcode::kShuffle:
        Shuffle(values);
        break;
      case Opcode::kVote:
        Vote(values);
        break;
      case Opcode::kWarpReduce:
        Reduce(values);
        break;
      case Opcode::kMatch:
        Match(values);
        break;
      default:
        ++block_.warp_epochs[first_ / kWarpLanes];
    }
    ForEachLane([&](uint32_t lane) { block_.Resume(LaneThread(lane)); });
    return true;
  }

 private:
  Thread& LaneThread(uint32_t lane) { return block_.threads[first_ + lane]; }
  uint64_t Source(uint32_t lane, int source) {
    const int slot = instruction_.sources[source];
    return slot == kNoSlot ? 0 : LaneThread(lane).slots[slot];
  }
  void Result(uint32_t lane, uint64_t value) {
    LaneThread(lane).slots[instruction_.destinations[0]] = value;
  }
  void Report(const std::string& what) {
    findings_.Add(FindingKind::kWarpMask, what, block_.index, first_ + lane_, at_);
  }

  bool IsThere(uint32_t lane) {
    return lane < num_lanes_ && LaneThread(lane).state == ThreadState::kInWarpInstruction &&
           LaneThread(lane).at == at_;
  }
  bool AllHaveCome() {
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((mask_ >> lane & 1) == 0 || IsThere(lane)) continue;
      if (lane < num_lanes_ && LaneThread(lane).state != ThreadState::kExited) return false;
    }
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((mask_ >> lane & 1) == 0) continue;
      if (!IsThere(lane)) {
        Report("its mask names lane " + std::to_string(lane) + ", which has exited");
        mask_ &= ~(1U << lane);
      } else if (static_cast<uint32_t>(Source(lane, 0)) !=
                 static_cast<uint32_t>(Source(lane_, 0))) {
        Report("lane " + std::to_string(lane) + " has another mask");
      }
    }
    return true;
  }

  template <typename Function>
  void ForEachLane(const Function& function) {
    for (uint32_t lane = 0; lane < num_lanes_; ++lane) {
      if ((mask_ >> lane & 1) != 0) function(lane);
    }
  }

  // As the PTX manual describes shfl.sync: `clamp` has the last lane of a segment in its lower
  // half, and in its upper half the bits of a lane's number that name the segment.
  void Shuffle(const std::array<uint64_t, kWarpLanes>& values) {
    ForEachLane([&](uint32_t lane) {
      const uint32_t distance = static_cast<uint32_t>(Source(lane, 2)) & 31;
      const auto bounds = static_cast<uint32_t>(Source(lane, 3));
      const uint32_t segment = bounds >> 8 & 31;
      const uint32_t clamp = bounds & 31;
      const auto last = static_cast<int>((lane & segment) | (clamp & ~segment));
      const auto own = static_cast<int>(lane);
      int source = 0;
      bool is_within = false;
      switch (instruction_.mode) {
        case Mode::kUp:
          source = own - static_cast<int>(distance);
          is_within = source >= last;
          break;
        case Mode::kDown:
          source = own + static_cast<int>(distance);
          is_within = source <= last;
          break;
        case Mode::kButterfly:
          source = own ^ static_cast<int>(distance);
          is_within = source <= last;
          break;
        default:
          source = static_cast<int>((lane & segment) | (distance & ~segment));
          is_within = source <= last;
      }
      if (!is_within) source = own;
      if ((mask_ >> source & 1) == 0) {
        Report("lane " + std::to_string(lane) + " reads lane " + std::to_string(source) +
               ", which its mask does not name");
        source = own;
      }
      Result(lane, static_cast<uint32_t>(values[source]));
      if (instruction_.destinations[1] != kNoSlot) {
        LaneThread(lane).slots[instruction_.destinations[1]] = is_within ? 1 : 0;
      }
    });
  }

  void Vote(const std::array<uint64_t, kWarpLanes>& values) {
    uint32_t ballot = 0;
    ForEachLane([&](uint32_t lane) {
      if ((values[lane] != 0) != instruction_.negated) ballot |= 1U << lane;
    });
    const bool all = ballot == mask_;
    const uint64_t result = instruction_.mode == Mode::kBallot ? ballot
                            : instruction_.mode == Mode::kAll  ? all
                            : instruction_.mode == Mode::kAny  ? ballot != 0
                                                               : all || ballot == 0;
    ForEachLane([&](uint32_t lane) { Result(lane, result); });
  }

  // The lanes that have the lane's own value.
  void Match(const std::array<uint64_t, kWarpLanes>& values) {
    ForEachLane([&](uint32_t lane) {
      uint32_t same = 0;
      ForEachLane([&](uint32_t other) {
        const bool is_same =
            static_cast<uint32_t>(values[lane]) == static_cast<uint32_t>(values[other]);
        if (is_same) same |= 1U << other;
      });
      Result(lane, same);
    });
  }

  void Reduce(const std::array<uint64_t, kWarpLanes>& values) {
    std::optional<uint32_t> result;
    ForEachLane([&](uint32_t lane) {
      const auto value = static_cast<uint32_t>(values[lane]);
      result = result.has_value() ? Combined(*result, value) : value;
    });
    ForEachLane([&](uint32_t lane) { Result(lane, *result); });
  }
  uint32_t Combined(uint32_t a, uint32_t b) const {
    const bool less = instruction_.type == Type::kSigned
                          ? static_cast<int32_t>(a) < static_cast<int32_t>(b)
                          : a < b;
    switch (instruction_.mode) {
      case Mode::kAdd:
        return a + b;
      case Mode::kMin:
        return less ? a : b;
      case Mode::kMax:
        return less ? b : a;
      case Mode::kAnd:
        return a & b;
      case Mode::kOr:
        return a | b;
      default:
        return a ^ b;
    }
  }

  ThreadBlock& block_;
  uint32_t first_;
  uint32_t num_lanes_;
  uint32_t lane_;
  uint32_t at_;
  const Instruction& instruction_;
  uint32_t mask_;
  LaunchFindings& findings_;
};

}  // namespace

void RunWarpInstructions(const Kernel& kernel, ThreadBlock& block, uint32_t warp,
                         LaunchFindings& findings) {
  for (uint32_t lane = 0; lane < block.Lanes(warp); ++lane) {
    if (block.threads[warp * kWarpLanes + lane].state != ThreadState::kInWarpInstruction) continue;
    WarpInstruction(kernel, block, warp, lane, findings).Run();
  }
}

}  // namespace batchplan::ptx
