// A running thread block.

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
  // The instruction that the thread runs next, or waits in.
  uint32_t at = 0;
  ThreadState state = ThreadState::kReady;
  uint64_t executed = 0;
  ThreadCounter counter;
};

struct ThreadBlock {
  uint32_t index = 0;
  std::vector<Thread> threads;
  // The slots of all threads, one thread after the other.
  std::vector<uint64_t> slots;
  std::vector<std::byte> local;
  std::vector<std::byte> shared;
  SharedRaces shared_races;
  // How many barriers the block and each warp have passed.
  uint32_t epoch = 1;
  std::vector<uint32_t> warp_epochs;
  uint32_t num_ready = 0;
  uint32_t num_exited = 0;

  uint32_t num_threads() const { return static_cast<uint32_t>(threads.size()); }
  // How many lanes a warp has, which the block may fill partially.
  uint32_t Lanes(uint32_t warp) const {
    return std::min(kWarpLanes, num_threads() - warp * kWarpLanes);
  }
  void Wait(Thread& thread, ThreadState state) {
    thread.state = state;
    --num_ready;
  }
  // Continues behind the instruction in which the thread waited.
  void Resume(Thread& thread) {
    thread.state = ThreadState::kReady;
    ++thread.at;
    ++num_ready;
  }
};

// Runs the instruction for which threads of the warp wait, if all threads named by its mask have
// come.
void RunWarpInstructions(const Kernel& kernel, ThreadBlock& block, uint32_t warp,
                         LaunchFindings& findings);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_THREAD_BLOCK_H_
