#include "src/backends.h"
#include "src/error_word.h"
#include "src/layout_arithmetic.h"

namespace batchplan::kernels::host {

batchplan_status ComputeLayout(const uint32_t* lengths, uint32_t num_sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout,
                               batchplan_status* error_word) {
  LengthSummary summary{};
  for (uint32_t i = 0; i < num_sequences; ++i) summary = summary + SummaryOf(lengths[i], options);
  const batchplan_status status = CheckSummary(summary, options);
  const bool exists = status == BATCHPLAN_OK;
  if (!exists) ReportError(error_word, status);

  WriteMaxima(layout, exists ? num_sequences : 0, summary.max_seqlen, options);
  Offsets offsets{};
  for (uint32_t i = 0; i < num_sequences; ++i) {
    WriteOffsets(layout, i, offsets, options.context_parallel);
    if (exists) offsets = offsets + OffsetsOf(lengths[i], options);
  }
  WriteOffsets(layout, num_sequences, offsets, options.context_parallel);
  return status;
}

}  // namespace batchplan::kernels::host
