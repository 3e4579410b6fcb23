// The threads of one emulated block: fibers that take turns on the calling thread.

#ifndef BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_H_
#define BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_H_

#include <functional>

namespace emulation {

// Runs `body` as `threads` fibers, each from one Wait to the next before any goes on, until all
// have returned. `resume` is called with a fiber's number each time before it runs.
void RunBlock(unsigned int threads, const std::function<void(unsigned int)>& resume,
              const std::function<void()>& body);

// Called by a fiber: lets the others catch up.
void Wait();

}  // namespace emulation

#endif  // BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_H_
