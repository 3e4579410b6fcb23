// Counts how often a warp issues each instruction of a kernel, and the 32-byte sectors of memory
// that its accesses touch: what a profiler would count on a device, for PTX.
//
// Lanes of a warp that run an instruction for the n-th time are counted as running it together,
// which is the best that a compiler can do with diverged lanes. Says nothing about time: caches,
// latencies and the work of ptxas are not modelled.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_COUNTS_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptx/module.h"

namespace batchplan::ptx {

// Sums over the blocks that ran, scaled up to the whole grid.
struct Counts {
  double warp_instructions = 0;
  double load_sectors = 0;
  double store_sectors = 0;
  // How often the 32 banks of shared memory serve the accesses of a warp.
  double shared_wavefronts = 0;

  Counts& operator+=(const Counts& other);
};

// The counts of one instruction.
struct InstructionCounts {
  uint64_t warp_issues = 0;
  uint64_t load_sectors = 0;
  uint64_t store_sectors = 0;
  uint64_t shared_wavefronts = 0;
};

// The counts of one thread in a running block.
class ThreadCounter {
 public:
  void Reset(size_t instructions) {
    executed_.assign(instructions, 0);
    accesses_.clear();
  }
  void Execute(uint32_t at) { ++executed_[at]; }
  // To be called after Execute of the instruction.
  void Touch(uint32_t at, uint64_t address) { accesses_.push_back({at, executed_[at], address}); }

 private:
  friend class LaunchCounter;
  struct Access {
    uint32_t at;
    uint32_t occurrence;
    uint64_t address;
  };
  std::vector<uint32_t> executed_;
  std::vector<Access> accesses_;
};

// The counts of one kernel.
class LaunchCounter {
 public:
  explicit LaunchCounter(const Kernel& kernel) : kernel_(kernel), counts_(kernel.code.size()) {}

  // Adds the threads of one warp at the end of their block.
  void AddWarp(const std::vector<const ThreadCounter*>& lanes);

  Counts Total(double blocks_of_grid_per_block) const;
  const std::vector<InstructionCounts>& instructions() const { return counts_; }

 private:
  const Kernel& kernel_;
  std::vector<InstructionCounts> counts_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_COUNTS_H_
