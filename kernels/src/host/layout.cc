#include <algorithm>
#include <cstdint>

#include "src/backends.h"
#include "src/error_word.h"
#include "src/layout_arithmetic.h"
#include "src/row_arithmetic.h"
#include "src/shared_arithmetic.h"

namespace batchplan::kernels::host {
namespace {

void WriteSubtreeEnd(const Row& row, int32_t* subtree_end) {
  const auto fill = [&](uint32_t begin, uint32_t count, uint32_t end) {
    std::fill_n(subtree_end + begin, count, static_cast<int32_t>(end));
  };
  for (uint32_t sequence = 0; sequence < row.num_sequences; ++sequence) {
    const uint32_t end = ShardOf(row, sequence + 1).begin;
    ForEachClosedBy(row, sequence, [&](uint32_t cell, uint32_t count) { fill(cell, count, end); });
  }
  const Shard tail = ShardOf(row, row.num_sequences);
  fill(tail.begin, tail.cells, row.width);
}

}  // namespace

batchplan_status ComputeLayout(const SequenceLengths& sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout,
                               batchplan_status* error_word) {
  const bool shares = sequences.shared != nullptr;
  LengthSummary summary{};
  for (uint32_t i = 0; i < sequences.num_sequences; ++i) {
    summary = summary + SummaryOf(sequences, i, options);
  }
  const batchplan_status status = CheckSummary(summary, options, shares);
  const bool exists = status == BATCHPLAN_OK;
  if (!exists) ReportError(error_word, status);

  WriteMaxima(layout, summary, exists);
  Offsets offsets{};
  for (uint32_t i = 0; i < sequences.num_sequences; ++i) {
    WriteOffsets(layout, i, offsets, options.context_parallel, shares);
    if (exists) offsets = offsets + OffsetsOf(sequences, i, options);
  }
  WriteOffsets(layout, sequences.num_sequences, offsets, options.context_parallel, shares);
  for (uint32_t i = 0; layout.least_shared != nullptr && i < sequences.num_sequences; ++i) {
    layout.least_shared[i] = LeastSharedOf(sequences, exists, layout.least_shared, i);
  }
  if (layout.subtree_end != nullptr) {
    WriteSubtreeEnd(WholeRow(layout, sequences, options), layout.subtree_end);
  }
  return status;
}

}  // namespace batchplan::kernels::host
