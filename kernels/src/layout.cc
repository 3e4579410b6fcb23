#include "batchplan/kernels/layout.h"

#include "src/alignment.h"
#include "src/backends.h"
#include "src/layout_arithmetic.h"

namespace kernels = batchplan::kernels;

batchplan_status batchplan_compute_layout(batchplan_backend backend, const uint32_t* lengths,
                                          const uint32_t* shared, uint32_t num_sequences,
                                          const batchplan_layout_options* options,
                                          const batchplan_packed_layout* layout,
                                          batchplan_status* error_word, void* stream) {
  if (!kernels::IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  const bool on_device = backend == BATCHPLAN_BACKEND_CUDA;
  if (options == nullptr || layout == nullptr || (lengths == nullptr && num_sequences > 0) ||
      (error_word == nullptr && on_device)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  const bool shares = shared != nullptr;
  if (layout->subtree_end != nullptr &&
      (layout->cu_seqlens == nullptr || layout->cu_seqlens_padded == nullptr ||
       (shares && layout->least_shared == nullptr))) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  if (const batchplan_status status = kernels::CheckAlignment(
          lengths, shared, layout->cu_seqlens, layout->cu_seqlens_padded,
          layout->cu_seqlens_padded_per_rank, layout->max_seqlen, layout->max_seqlen_padded,
          layout->cu_new, layout->least_shared, layout->subtree_end, error_word);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (const batchplan_status status = kernels::CheckOptions(num_sequences, *options, shares);
      status != BATCHPLAN_OK) {
    return status;
  }
  const kernels::SequenceLengths sequences = {lengths, shared, num_sequences};
  return on_device ? kernels::cuda::ComputeLayout(sequences, *options, *layout, error_word, stream)
                   : kernels::host::ComputeLayout(sequences, *options, *layout, error_word);
}
