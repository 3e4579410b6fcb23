// What the kernels use of cub::BlockScan; see cuda_runtime.h beside it.

#ifndef BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_SCAN_CUH_
#define BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_SCAN_CUH_

#include <cuda_runtime.h>

namespace cub {

template <typename T, int kThreads>
class BlockScan {
 public:
  struct TempStorage {
    T sums[kThreads];
  };

  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  template <int kItems, typename Operation>
  void ExclusiveScan(const T (&input)[kItems], T (&output)[kItems], const T& initial,
                     Operation operation, T& total) {
    T own = input[0];
    for (int i = 1; i < kItems; ++i) own = operation(own, input[i]);
    storage_.sums[threadIdx.x] = own;
    __syncthreads();
    T before = initial;
    total = storage_.sums[0];
    for (unsigned int i = 0; i < threadIdx.x; ++i) before = operation(before, storage_.sums[i]);
    for (int i = 1; i < kThreads; ++i) total = operation(total, storage_.sums[i]);
    for (int i = 0; i < kItems; ++i) {
      const T item = input[i];  // input may be output
      output[i] = before;
      before = operation(before, item);
    }
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub

#endif  // BATCHPLAN_TESTS_KERNELS_EMULATION_BLOCK_SCAN_CUH_
