// Calls of the kernels at the sizes of training, for kernel_counts.

#ifndef BATCHPLAN_TESTS_BENCH_KERNEL_SHAPES_H_
#define BATCHPLAN_TESTS_BENCH_KERNEL_SHAPES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace batchplan::kernels {

struct Shape {
  std::string name;
  // The tokens of the micro-batch.
  uint64_t tokens = 0;
  // The bytes that the call must read and write.
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // Makes the call, on the CUDA backend, and waits for it. Aborts on errors.
  std::function<void()> call;
};

// Shapes of 131,072 tokens each. Their device memory is never freed.
std::vector<Shape> TrainingShapes();

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_TESTS_BENCH_KERNEL_SHAPES_H_
