// Judges every sequence before anything is moved.

#ifndef BATCHPLAN_KERNELS_SRC_HOST_CHECK_SEQUENCES_H_
#define BATCHPLAN_KERNELS_SRC_HOST_CHECK_SEQUENCES_H_

#include <cstdint>

#include "src/error_word.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::host {

// What the error word holds, else what is wrong with the first sequence that is wrong, which goes
// there.
inline batchplan_status CheckSequences(const Row& row, const batchplan_sequences& sequences,
                                       bool has_rows, uint64_t narrowest,
                                       batchplan_status* error_word) {
  if (HoldsError(error_word)) return *error_word;
  const auto check = row.least_shared != nullptr ? CheckMove<true> : CheckMove<false>;
  for (uint32_t sequence = 0; sequence < row.num_sequences; ++sequence) {
    const batchplan_status status = check(row, sequences, has_rows, narrowest, sequence);
    if (status == BATCHPLAN_OK) continue;
    ReportError(error_word, status);
    return status;
  }
  return BATCHPLAN_OK;
}

}  // namespace batchplan::kernels::host

#endif  // BATCHPLAN_KERNELS_SRC_HOST_CHECK_SEQUENCES_H_
