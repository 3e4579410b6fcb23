// A thread block amid its run.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_THREAD_BLOCK_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_THREAD_BLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptx/counts.h"
#include "ptx/findings.h"
#include "ptx/module.h"
#include "ptx/races.h"

namespace batchplan::ptx {

inline constexpr uint32_t kWarpLanes = 32;

enum class ThreadState : uint8_t { kReady, kAtBarrier, kInWarpInstruction, kExited };

struct Thread {
  uint64_t* slots = nullptr;
  // The instruction that it runs next, or waits in.
  uint32_t at = 0;
  ThreadState state = ThreadState::kReady;
  uint64_t executed = 0;
  ThreadCounter counter;
};

struct ThreadBlock {
  uint32_t index = 0;
  std::vector<Thread> threads;
  // Of all threads, one after the other.
  std::vector<uint64_t> slots;
  std::vector<std::byte> local;
  std::vector<std::byte> shared;
  SharedRaces shared_races;
  // Barriers passed, by the block and by each warp.
  uint32_t epoch = 1;
  std::vector<uint32_t> warp_epochs;
  uint32_t num_ready = 0;
  uint32_t num_exited = 0;

  uint32_t num_threads() const { return static_cast<uint32_t>(threads.size()); }
  // Of a warp, which the block may fill in part.
  uint32_t Lanes(uint32_t warp) const {
    return std::min(kWarpLanes, num_threads() - warp * kWarpLanes);
  }
  void Wait(Thread& thread, ThreadState state) {
    thread.state = state;
    --num_ready;
  }
  // Behind the instruction in which it waited.
  void Resume(Thread& thread) {
    thread.state = ThreadState::kReady;
    ++thread.at;
    ++num_ready;
  }
};

// Runs what the threads of a warp wait in, where all those that its mask names have come.
void RunWarpInstructions(const Kernel& kernel, ThreadBlock& block, uint32_t warp,
                         LaunchFindings& findings);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_THREAD_BLOCK_H_
