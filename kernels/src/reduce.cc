#include "batchplan/kernels/reduce.h"

#include <cstdint>

#include "src/alignment.h"
#include "src/backends.h"
#include "src/reduce_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {
namespace {

batchplan_status CheckElements(const void* elements, batchplan_data_type type, bool required) {
  const uint32_t size = SizeOf(type);
  if (size == 0) return BATCHPLAN_ERROR_DATA_TYPE;
  if (elements == nullptr && required) return BATCHPLAN_ERROR_NULL_POINTER;
  return IsAligned(elements, size) ? BATCHPLAN_OK : BATCHPLAN_ERROR_MISALIGNED;
}

batchplan_status CheckReduction(const batchplan_reduction& reduction, bool has_tokens) {
  if (const batchplan_status status =
          CheckElements(reduction.values, reduction.value_type, has_tokens);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (reduction.weights != nullptr) {
    const batchplan_status status = CheckElements(reduction.weights, reduction.weight_type, false);
    if (status != BATCHPLAN_OK) return status;
  }
  return CheckAlignment(reduction.denominators, reduction.total_denominator, reduction.sums,
                        reduction.weight_sums, reduction.means, reduction.sum_total,
                        reduction.mean_total);
}

}  // namespace
}  // namespace batchplan::kernels

namespace kernels = batchplan::kernels;

batchplan_status batchplan_reduce_workspace_size(batchplan_backend backend, uint32_t num_sequences,
                                                 uint32_t row_width, size_t* size) {
  if (!kernels::IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  if (size == nullptr) return BATCHPLAN_ERROR_NULL_POINTER;
  *size = kernels::WorkspaceSize(num_sequences, row_width);
  return BATCHPLAN_OK;
}

batchplan_status batchplan_reduce(batchplan_backend backend, const batchplan_row* row,
                                  const batchplan_reduction* reduction,
                                  batchplan_status* error_word, void* workspace,
                                  size_t workspace_size, void* stream) {
  if (!kernels::IsBackend(backend)) return BATCHPLAN_ERROR_UNKNOWN_BACKEND;
  const bool on_device = backend == BATCHPLAN_BACKEND_CUDA;
  if (row == nullptr || reduction == nullptr || (on_device && error_word == nullptr) ||
      (workspace == nullptr && workspace_size > 0)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  if (const batchplan_status status = kernels::CheckRow(*row); status != BATCHPLAN_OK) {
    return status;
  }
  if (row->least_shared != nullptr) return BATCHPLAN_ERROR_SHARED_PREFIXES;
  const kernels::Row checked_row = kernels::RowOf(*row);
  const bool has_tokens = row->num_sequences > 0 && kernels::PackedCells(checked_row) > 0;
  if (const batchplan_status status = kernels::CheckReduction(*reduction, has_tokens);
      status != BATCHPLAN_OK) {
    return status;
  }
  const auto* const aligned = static_cast<const kernels::SequenceTotals*>(workspace);
  if (const batchplan_status status =
          kernels::CheckAlignment(row->cu_seqlens, row->cu_seqlens_padded, error_word, aligned);
      status != BATCHPLAN_OK) {
    return status;
  }
  const size_t needed = kernels::WorkspaceSize(row->num_sequences, row->options.row_width);
  const bool needs_workspace = workspace != nullptr || kernels::AsksForTotals(*reduction);
  if (needs_workspace && workspace_size < needed) return BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL;
  const kernels::Workspace parts = kernels::WorkspaceAt(workspace, row->num_sequences);
  return on_device ? kernels::cuda::Reduce(checked_row, *reduction, error_word, parts, stream)
                   : kernels::host::Reduce(checked_row, *reduction, error_word, parts);
}
