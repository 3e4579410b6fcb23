#include "batchplan/kernels/layout.h"

#include "src/alignment.h"
#include "src/backends.h"
#include "src/layout_arithmetic.h"

namespace kernels = batchplan::kernels;

batchplan_status batchplan_compute_layout(batchplan_backend backend, const uint32_t* lengths,
                                          uint32_t num_sequences,
                                          const batchplan_layout_options* options,
                                          const batchplan_packed_layout* layout,
                                          batchplan_status* error_word, void* stream) {
  if (!kernels::IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  const bool on_device = backend == BATCHPLAN_BACKEND_CUDA;
  if (options == nullptr || layout == nullptr || (lengths == nullptr && num_sequences > 0) ||
      (error_word == nullptr && on_device)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  if (const batchplan_status status =
          kernels::CheckAlignment(lengths, layout->cu_seqlens, layout->cu_seqlens_padded,
                                  layout->cu_seqlens_padded_per_rank, layout->max_seqlen,
                                  layout->max_seqlen_padded, error_word);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (const batchplan_status status = kernels::CheckOptions(num_sequences, *options);
      status != BATCHPLAN_OK) {
    return status;
  }
  return on_device
             ? kernels::cuda::ComputeLayout(lengths, num_sequences, *options, *layout, error_word,
                                            stream)
             : kernels::host::ComputeLayout(lengths, num_sequences, *options, *layout, error_word);
}
