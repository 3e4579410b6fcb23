// How pack and unpack move wide fields, alone, so that what it loads and stores can be read off the
// compiler's output; never run.

#include "src/cuda/vectors.h"

namespace batchplan::kernels::cuda {

// Of any alignment: both the words that lie as the destination's do, and those that are shifted.
__global__ void VectorsProbe(uint4* to, const char* from, uint32_t count) {
  CopyVectors(to, from, count);
}

// What must not pass for it.
__global__ void NarrowProbe(uint2* to, const uint2* from, uint32_t count) {
  for (uint32_t i = threadIdx.x; i < count; i += kWarp) to[i] = __ldg(from + i);
}

}  // namespace batchplan::kernels::cuda
