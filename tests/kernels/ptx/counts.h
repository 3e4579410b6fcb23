// How often a warp issues each instruction of a kernel, and the 32-byte sectors of memory that its
// accesses touch: what a profiler would count on a device, of the PTX.
//
// A warp's lanes that run the same instruction for the n-th time are taken to do so together, which
// is as well as a compiler can bring diverged lanes together again. No word on time: caches,
// latencies and what ptxas makes of the PTX are not modelled.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_COUNTS_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptx/module.h"

namespace batchplan::ptx {

// Sums over the blocks that ran, times the share of the grid that they are.
struct Counts {
  double warp_instructions = 0;
  double load_sectors = 0;
  double store_sectors = 0;
  // Turns in which the 32 banks of shared memory serve the accesses of a warp.
  double shared_wavefronts = 0;

  Counts& operator+=(const Counts& other);
};

// Of one instruction.
struct InstructionCounts {
  uint64_t warp_issues = 0;
  uint64_t load_sectors = 0;
  uint64_t store_sectors = 0;
  uint64_t shared_wavefronts = 0;
};

// Of one thread within a block that runs.
class ThreadCounter {
 public:
  void Reset(size_t instructions) {
    executed_.assign(instructions, 0);
    accesses_.clear();
  }
  void Execute(uint32_t at) { ++executed_[at]; }
  // After Execute of the same instruction.
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

// Of one kernel.
class LaunchCounter {
 public:
  explicit LaunchCounter(const Kernel& kernel) : kernel_(kernel), counts_(kernel.code.size()) {}

  // The threads of one warp, at the end of their block.
  void AddWarp(const std::vector<const ThreadCounter*>& lanes);

  Counts Total(double blocks_of_grid_per_block) const;
  const std::vector<InstructionCounts>& instructions() const { return counts_; }

 private:
  const Kernel& kernel_;
  std::vector<InstructionCounts> counts_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_COUNTS_H_
