// What the kernels use of cub::BlockReduce; see cuda_runtime.h beside it.

#ifndef BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_REDUCE_CUH_
#define BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_REDUCE_CUH_

#include <cuda_runtime.h>

namespace cub {

template <typename T, int kThreads>
class BlockReduce {
 public:
  struct TempStorage {
    T items[kThreads];
  };

  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  // Valid in thread 0 alone.
  template <typename Operation>
  T Reduce(const T& item, Operation operation) {
    storage_.items[threadIdx.x] = item;
    __syncthreads();
    if (threadIdx.x != 0) return T{};
    T sum = storage_.items[0];
    for (int i = 1; i < kThreads; ++i) sum = operation(sum, storage_.items[i]);
    return sum;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub

#endif  // BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_REDUCE_CUH_
