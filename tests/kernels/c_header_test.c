// The header as a C compiler reads it, called as a C program would.

#include "batchplan/kernels.h"

batchplan_status LayoutFromC(const uint32_t* lengths, uint32_t num_sequences, int32_t* cu_seqlens);

batchplan_status LayoutFromC(const uint32_t* lengths, uint32_t num_sequences, int32_t* cu_seqlens) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 2, .row_width = 24};
  const batchplan_packed_layout layout = {.cu_seqlens_padded = cu_seqlens};
  return batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths, NULL, num_sequences, &options, &layout,
                                  NULL, NULL);
}
