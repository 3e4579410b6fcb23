// The aligned path of pack and unpack alone, so that what it loads and stores can be read off the
// compiler's output; never run.

#include "src/cuda/move.cu"

namespace batchplan::kernels::cuda {

// 16-byte words, as for tokens and pointers that divide by 16.
__global__ void AlignedProbe(const __grid_constant__ FieldTask field, uint32_t first_word,
                             uint32_t count) {
  __shared__ TileTokens tokens;
  tokens.source[threadIdx.x] = threadIdx.x * field.token_bytes;
  tokens.destination[threadIdx.x] = threadIdx.x * field.token_bytes;
  __syncthreads();
  MoveAligned<uint4>(field, tokens, first_word, count);
}

// What must not pass for it.
__global__ void NarrowProbe(const __grid_constant__ FieldTask field, uint32_t first_word,
                            uint32_t count) {
  __shared__ TileTokens tokens;
  tokens.source[threadIdx.x] = threadIdx.x * field.token_bytes;
  tokens.destination[threadIdx.x] = threadIdx.x * field.token_bytes;
  __syncthreads();
  MoveAligned<uint2>(field, tokens, first_word, count);
}

}  // namespace batchplan::kernels::cuda
