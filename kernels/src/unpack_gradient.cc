#include "batchplan/kernels/unpack_gradient.h"

#include "src/alignment.h"
#include "src/backends.h"
#include "src/gradient_arithmetic.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {
namespace {

// What a field has too is judged as one.
batchplan_field FieldOf(const batchplan_gradient& gradient) {
  batchplan_field field = {};
  field.content = BATCHPLAN_CONTENT_TOKENS;
  field.element_size = SizeOf(gradient.data_type);
  field.elements_per_token = gradient.elements_per_token;
  field.width = gradient.width;
  return field;
}

batchplan_status CheckGradient(const GradientTask& task) {
  const auto& [row, sequences, gradient] = task;
  const batchplan_data_type type = gradient.data_type;
  if (type != BATCHPLAN_FLOAT16 && type != BATCHPLAN_BFLOAT16 && type != BATCHPLAN_FLOAT32 &&
      type != BATCHPLAN_FLOAT64) {
    return BATCHPLAN_ERROR_DATA_TYPE;
  }
  const bool ragged = sequences.offsets != nullptr;
  if (const batchplan_status status = CheckField(FieldOf(gradient), ragged, /*shares=*/true);
      status != BATCHPLAN_OK) {
    return status;
  }
  const bool has_rows = row.num_sequences > 0 && sequences.num_rows > 0;
  const bool has_tokens = has_rows && (ragged ? sequences.num_tokens : gradient.width) > 0;
  if (row.width > 0 &&
      (gradient.destination == nullptr || (gradient.source == nullptr && has_tokens))) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  const uint32_t size = SizeOf(type);
  const bool aligned = IsAligned(gradient.source, size) && IsAligned(gradient.destination, size);
  return aligned ? BATCHPLAN_OK : BATCHPLAN_ERROR_MISALIGNED;
}

}  // namespace
}  // namespace batchplan::kernels

namespace kernels = batchplan::kernels;

batchplan_status batchplan_unpack_gradient(batchplan_backend backend, const batchplan_row* row,
                                           const batchplan_sequences* sequences,
                                           const batchplan_gradient* gradient,
                                           batchplan_status* error_word, void* stream) {
  if (!kernels::IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  const bool on_device = backend == BATCHPLAN_BACKEND_CUDA;
  if (row == nullptr || sequences == nullptr || gradient == nullptr ||
      row->least_shared == nullptr || (on_device && error_word == nullptr)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  if (const batchplan_status status = kernels::CheckRow(*row); status != BATCHPLAN_OK) {
    return status;
  }
  if (const batchplan_status status =
          kernels::CheckAlignment(row->cu_seqlens, row->cu_seqlens_padded, row->least_shared,
                                  sequences->sequence_index, sequences->offsets, error_word);
      status != BATCHPLAN_OK) {
    return status;
  }
  const kernels::GradientTask task = {kernels::RowOf(*row), *sequences, *gradient};
  if (const batchplan_status status = kernels::CheckGradient(task); status != BATCHPLAN_OK) {
    return status;
  }
  return on_device ? kernels::cuda::UnpackGradient(task, error_word, stream)
                   : kernels::host::UnpackGradient(task, error_word);
}
