// Runs a grid of thread blocks; each thread is interpreted separately.
//
// Threads run one at a time, until they wait at a barrier or with their warp. This does not find
// what depends on chance, and does not have to: races.h finds conflicts by what orders accesses,
// not by which came first.
//
// Not covered: the SASS that ptxas makes of PTX, registers and occupancy, caches, the memory model
// between blocks beyond fences, and time.

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
  // The order in which blocks and threads take turns. kRandom lets a thread run only a few
  // instructions at a time, and runs several blocks at once.
  enum class Order { kForward, kReverse, kRandom };
  Order order = Order::kForward;
  uint64_t seed = 1;
  // Looks for races, bytes written twice and uninitialized reads, which needs most of the time.
  bool checks = true;
  // If not 0 and the grid has more blocks, runs only this many, spread over the grid. Meant for
  // counting.
  uint32_t sampled_blocks = 0;
  // Called after each launch, if set. Counting needs time.
  std::function<void(const Kernel&, const LaunchCounter&, double blocks_of_grid_per_block)>
      on_counts;
};

// The options of all launches. Initially from the environment's BATCHPLAN_PTX_ORDER: "forward",
// "reverse" or "random:SEED".
LaunchOptions& CurrentLaunchOptions();

// The reason why a kernel ended early.
enum class Fault { kNone, kIllegalAddress, kMisalignedAddress, kDeadlock };

struct Grid {
  uint32_t blocks;
  // At most 1024.
  uint32_t threads;
};

// `parameters` are laid out as the kernel expects. Faults are also reported as findings.
Fault RunKernel(const Kernel& kernel, Grid grid, const std::vector<std::byte>& parameters);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_EXECUTOR_H_
