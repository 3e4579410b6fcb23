// Runs a grid of thread blocks, each thread an interpreter of its own.
//
// Threads run one at a time, each until it waits for others: at a barrier, or with its warp. That
// finds nothing of what depends on chance, nor needs to: races.h tells conflicts by what orders
// accesses, not by who came first.
//
// Not covered: what ptxas makes of the PTX (SASS), registers and occupancy, caches, the memory
// model between blocks beyond fences, and time.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_EXECUTOR_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ptx/counts.h"
#include "ptx/module.h"

namespace batchplan::ptx {

struct LaunchOptions {
  // In which blocks and threads take turns. kRandom lets a thread go on for a few instructions
  // only, and has several blocks at work.
  enum class Order { kForward, kReverse, kRandom };
  Order order = Order::kForward;
  uint64_t seed = 1;
  // Races, bytes written twice and uninitialised reads, which cost most of the time.
  bool checks = true;
  // If not 0 and the grid has more blocks, this many of them are run, spread over the grid: for
  // counts.
  uint32_t sampled_blocks = 0;
  // Called after each launch, if set. Counting takes time.
  std::function<void(const Kernel&, const LaunchCounter&, double blocks_of_grid_per_block)>
      on_counts;
};

// Of all launches. At first as BATCHPLAN_PTX_ORDER of the environment says: "forward", "reverse" or
// "random:SEED".
LaunchOptions& CurrentLaunchOptions();

// What ends a kernel early.
enum class Fault { kNone, kIllegalAddress, kMisalignedAddress, kDeadlock };

struct Grid {
  uint32_t blocks;
  // At most 1024.
  uint32_t threads;
};

// `parameters` as the kernel lays them out. What is wrong is also reported as a finding.
Fault RunKernel(const Kernel& kernel, Grid grid, const std::vector<std::byte>& parameters);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_EXECUTOR_H_
